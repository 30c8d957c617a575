// Shared by attention and window attention on the CPU: the matrices of one head in f32, which stay in the
// cache. The keys are also stored transposed, so that the scores of a block of rows are one small matrix
// product; softmax processes sixteen keys at a time.
#pragma once

#include "core/kernels/common/lane_vector.h"
#include "core/kernels/common/small_gemm_cpu.h"
#include "core/tensor/integers.h"

namespace saccade::cpu {

constexpr float kInfinity = __builtin_inff();

// Copies vectors row(i) of `size` elements, times factor, to the rows of a matrix of whole vectors: zeros for
// nullptr and after the last element.
template <class Row>
void load_rows(int64_t count, int64_t size, float factor, float* to, const Row& row) {
  for (int64_t i = 0; i < count; ++i) {
    const auto* from = row(i);
    for (int64_t d = 0; d < size; d += kLanes, to += kLanes)
      store(to, from ? load_some(from + d, size - d) * factor : Floats{});
  }
}
// The reverse; nothing is written to nullptr. factors: one per row.
template <class Row>
void store_rows(const float* from, int64_t count, int64_t size, float factor, const Row& row,
                const float* factors = nullptr) {
  for (int64_t i = 0; i < count; ++i) {
    auto* to = row(i);
    float f = factors ? factors[i] : factor;
    for (int64_t d = 0; d < size; d += kLanes, from += kLanes)
      if (to) store_some(to + d, load(from) * f, size - d);
  }
}

// The transpose of sixteen vectors: each round rotates the eight bits of an element's index by one.
inline void transpose(Floats (&x)[kLanes]) {
  for (int round = 0; round < 4; ++round) {
    Floats y[kLanes];
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = interleave_low(x[i], x[i + 8]);
      y[2 * i + 1] = interleave_high(x[i], x[i + 8]);
    }
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}
// [rows, columns] -> [columns, rows], both in whole vectors.
inline void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      Floats x[kLanes];
      for (int i = 0; i < kLanes; ++i) x[i] = load(from + (r + i) * columns + c);
      transpose(x);
      for (int i = 0; i < kLanes; ++i) store(to + (c + i) * rows + r, x[i]);
    }
  }
}

// One head: S keys and values and a block of up to `rows` queries. Rows after the last key are zeros.
struct HeadMatrices {
  int64_t rows, S, D, Dv;
  int64_t Sp, Dp, Dvp;  // padded to whole vectors
  LaneVector<float> queries, keys, keys_t, values, scores, out;
  LaneVector<float> values_t, dy, dscores;  // for backward

  HeadMatrices(int64_t block, int64_t key_count, int64_t key_size, int64_t value_size, bool backward)
      : rows(block),
        S(key_count),
        D(key_size),
        Dv(value_size),
        Sp(round_up(S, kLanes)),
        Dp(round_up(D, kLanes)),
        Dvp(round_up(Dv, kLanes)) {
    auto room = [](LaneVector<float>& m, int64_t height, int64_t width) {
      m.assign(static_cast<size_t>(height * width), 0.0f);
    };
    room(queries, rows, Dp);
    room(keys, Sp, Dp);
    room(keys_t, Dp, Sp);
    room(values, Sp, Dvp);
    room(scores, rows, Sp);
    room(out, std::max(rows, S), std::max(Dp, Dvp));
    if (!backward) return;
    room(values_t, Dvp, Sp);
    room(dy, rows, Dvp);
    room(dscores, rows, Sp);
  }

  // The keys are scaled, so that scores and dq need no factor; dk gets it when it is stored.
  template <class KeyRow, class ValueRow>
  void load_keys(float scale, const KeyRow& key, const ValueRow& value) {
    load_rows(S, D, scale, keys.data(), key);
    transpose(keys.data(), Sp, Dp, keys_t.data());
    load_rows(S, Dv, 1.0f, values.data(), value);
    if (!values_t.empty()) transpose(values.data(), Sp, Dvp, values_t.data());
  }
  // Leaves the products with the keys in `scores`.
  template <class Row>
  void load_queries(int64_t count, const Row& row) {
    load_rows(count, D, 1.0f, queries.data(), row);
    small_gemm<false>(count, Sp, D, queries.data(), Dp, 1, keys_t.data(), Sp, scores.data(), Sp);
  }
  // Leaves the gradients of the weights in `dscores`.
  template <class Row>
  void load_gradients(int64_t count, const Row& row) {
    load_rows(count, Dv, 1.0f, dy.data(), row);
    small_gemm<false>(count, Sp, Dv, dy.data(), Dvp, 1, values_t.data(), Sp, dscores.data(), Sp);
  }

  // Replaces row i of scores by exp(score - shift), where shift is its largest score (or 0 without a key:
  // then every weight is 0); score(s) returns those of sixteen keys from s on. kV: vectors per row if known,
  // so that they stay in registers.
  struct RowSum {
    float shift, total;
  };
  template <int kV, class Score>
  RowSum exponentials(int64_t i, const Score& score) {
    const int64_t vectors = kV > 0 ? kV : Sp / kLanes;
    float* z = scores.data() + i * Sp;
    Floats x[kV > 0 ? kV : 1], top = broadcast(-kInfinity), total{};
    for (int64_t j = 0; j < vectors; ++j) {
      Floats s = score(j * kLanes);
      top = max(s, top);
      if constexpr (kV > 0)
        x[j] = s;
      else
        store(z + j * kLanes, s);
    }
    float shift = maximum(top);
    if (shift == -kInfinity) shift = 0;
    for (int64_t j = 0; j < vectors; ++j) {
      Floats e = cpu::exp((kV > 0 ? x[kV > 0 ? j : 0] : load(z + j * kLanes)) - shift);
      store(z + j * kLanes, e);
      total += e;
    }
    return {shift, sum(total)};
  }
  // Replaces row i of scores by the weights that reached the output, and row i of dscores by the gradients of
  // the scores. kept: the factors of dropout, or nullptr.
  template <int kV, class Score>
  void score_gradients(int64_t i, float lse, const float* kept, const Score& score) {
    const int64_t vectors = kV > 0 ? kV : Sp / kLanes;
    float *z = scores.data() + i * Sp, *dz = dscores.data() + i * Sp;
    float shift = lse == -kInfinity ? kInfinity : lse;  // a row without keys: weights 0
    Floats x[kV > 0 ? kV : 1], delta{};
    for (int64_t j = 0; j < vectors; ++j) {
      Floats weight = cpu::exp(score(j * kLanes) - shift), d = load(dz + j * kLanes);
      store(z + j * kLanes, weight);
      if (kept) store(dz + j * kLanes, d *= load(kept + j * kLanes));
      delta += weight * d;
      if constexpr (kV > 0) x[j] = weight;
    }
    float total = sum(delta);
    for (int64_t j = 0; j < vectors; ++j) {
      Floats weight = kV > 0 ? x[kV > 0 ? j : 0] : load(z + j * kLanes);
      store(dz + j * kLanes, weight * (load(dz + j * kLanes) - total));
      if (kept) store(z + j * kLanes, weight * load(kept + j * kLanes));
    }
  }

  // Multiplies scores by values, and computes gradients from dscores and scores. kAdd: adds to the output.
  void weigh_values(int64_t count) {
    small_gemm<false>(count, Dvp, S, scores.data(), Sp, 1, values.data(), Dvp, out.data(), Dvp);
  }
  void weigh_keys(int64_t count) {
    small_gemm<false>(count, Dp, S, dscores.data(), Sp, 1, keys.data(), Dp, out.data(), Dp);
  }
  template <bool kAdd>
  void weigh_queries(int64_t count, float* dk) {
    small_gemm<kAdd>(S, Dp, count, dscores.data(), 1, Sp, queries.data(), Dp, dk, Dp);
  }
  template <bool kAdd>
  void weigh_gradients(int64_t count, float* dv) {
    small_gemm<kAdd>(S, Dvp, count, scores.data(), 1, Sp, dy.data(), Dvp, dv, Dvp);
  }
};

}  // namespace saccade::cpu
