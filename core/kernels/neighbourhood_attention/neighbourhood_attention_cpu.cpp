// Neighbourhood attention for f32 and bf16 (see attention_cpu.h), tile by tile (neighbour_tiles_cpu.h). In
// backward, one thread owns a head of an image: the gradients of its keys are summed in f32 beside the map.
#include <vector>

#include "core/kernels/neighbourhood_attention/neighbour_tiles_cpu.h"
#include "core/kernels/reduce/reduce.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

// Processes one tile of one head at a time.
template <class E>
class TileWorker {
 public:
  TileWorker(const NeighbourTiles& problem, const E* qkv_data, const bool* key_mask, bool backward)
      : p(problem),
        m(p.T, p.S, p.D, p.D, backward),
        qkv(qkv_data),
        mask(key_mask),
        queries(static_cast<size_t>(p.T)),
        keys(static_cast<size_t>(p.S)),
        shifts(queries.size()),
        totals(queries.size()) {}

  void begin_tile(int64_t image, int64_t head, int64_t row, int64_t column) {
    n = image;
    h = head;
    const auto &r = p.rows.tile(row), &c = p.columns.tile(column);
    kind = p.kind(r, c);
    count = int64_t{r.count} * c.count;
    for (int64_t i = 0; i < count; ++i)
      queries[static_cast<size_t>(i)] = (r.begin + i / c.count) * p.W + c.begin + i % c.count;
    patch = r.first_key * p.W + c.first_key;
    for (int64_t i = 0; i < p.S; ++i)
      keys[static_cast<size_t>(i)] = patch + i / p.columns.keys * p.W + i % p.columns.keys;
    bias = p.bias.data() + (kind * p.heads + h) * p.T * p.Sp;
    m.load_keys(p.scale, rows_of(qkv, keys, 3, 1), rows_of(qkv, keys, 3, 2));
    m.load_queries(count, rows_of(qkv, queries, 3, 0));
    if (!mask) return;
    ignored.assign(static_cast<size_t>(p.Sp), 0.0f);
    for (size_t i = 0; i < keys.size(); ++i)
      if (mask[n * p.cells() + keys[i]]) ignored[i] = -kInfinity;
  }

  void forward(E* y, float* lse) {
    for (int64_t i = 0; i < count; ++i) {
      auto score = scores_of(i);
      const auto row = p.Sp == 7 * kLanes   ? m.exponentials<7>(i, score)
                       : p.Sp == 4 * kLanes ? m.exponentials<4>(i, score)
                                            : m.exponentials<0>(i, score);
      shifts[static_cast<size_t>(i)] = row.shift;
      totals[static_cast<size_t>(i)] = row.total;
    }
    // The rows' sums are at least 1, or 0 if there was no key at all, which log turns into -inf.
    float* log_sums = lse + (n * p.heads + h) * p.cells();
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      log_sums[queries[i]] = shifts[i] + math::log(totals[i]);
      totals[i] = totals[i] == 0 ? 0.0f : 1 / totals[i];
    }
    m.weigh_values(count);
    store_rows(m.out.data(), count, p.D, 1.0f, rows_of(y, queries, 1, 0), totals.data());
  }

  // Adds to dk and dv [cells, Dp] of the head's map and to dtable [kinds, T, Sp]; null outputs are skipped.
  void backward(const E* gradient, const float* lse, E* dqkv, float* dk, float* dv, float* dtable) {
    const float* log_sums = lse + (n * p.heads + h) * p.cells();
    m.load_gradients(count, rows_of(gradient, queries, 1, 0));
    for (int64_t i = 0; i < count; ++i) {
      auto score = scores_of(i);
      const float log_sum = log_sums[queries[static_cast<size_t>(i)]];
      if (p.Sp == 7 * kLanes)
        m.score_gradients<7>(i, log_sum, nullptr, score);
      else if (p.Sp == 4 * kLanes)
        m.score_gradients<4>(i, log_sum, nullptr, score);
      else
        m.score_gradients<0>(i, log_sum, nullptr, score);
    }
    if (dtable) {
      float* sums = dtable + kind * p.T * p.Sp;
      for (int64_t i = 0; i < count * p.Sp; i += kLanes)
        store(sums + i, load(sums + i) + load(m.dscores.data() + i));
    }
    if (!dqkv) return;
    m.weigh_keys(count);
    store_rows(m.out.data(), count, p.D, 1.0f, rows_of(dqkv, queries, 3, 0));
    // A row of the patch is a row of the map.
    for (int64_t r = 0; r < p.rows.keys; ++r) {
      const int64_t to = (patch + r * p.W) * m.Dp, from = r * p.columns.keys;
      small_gemm<true>(p.columns.keys, m.Dp, count, m.dscores.data() + from, 1, p.Sp, m.queries.data(), m.Dp,
                       dk + to, m.Dp);
      small_gemm<true>(p.columns.keys, m.Dp, count, m.scores.data() + from, 1, p.Sp, m.dy.data(), m.Dp,
                       dv + to, m.Dp);
    }
  }
  // Stores the sums that backward accumulated for the keys of a head of an image.
  void store_key_gradients(int64_t image, int64_t head, const float* dk, const float* dv, E* dqkv) {
    E* map = dqkv + (image * p.cells() * 3 + 1) * p.C + head * p.D;
    store_rows(dk, p.cells(), p.D, p.scale, [&](int64_t i) { return map + i * 3 * p.C; });
    store_rows(dv, p.cells(), p.D, 1.0f, [&](int64_t i) { return map + i * 3 * p.C + p.C; });
  }
  int64_t padded_size() const { return m.Dp; }

 private:
  // Returns the head's vectors of tokens in part `part` of a map [N, H, W, parts * C].
  template <class V>
  auto rows_of(V* map, const std::vector<int64_t>& tokens, int64_t parts, int64_t part) const {
    V* image = map + n * p.cells() * parts * p.C + part * p.C + h * p.D;
    return [image, at = tokens.data(), stride = parts * p.C](int64_t i) { return image + at[i] * stride; };
  }
  // Returns the scores of query i, sixteen keys at a time.
  auto scores_of(int64_t i) const {
    const float *z = m.scores.data() + i * p.Sp, *row = bias + i * p.Sp;
    const float* skip = mask ? ignored.data() : nullptr;
    return [=](int64_t s) {
      Floats x = load(z + s) + load(row + s);
      return skip ? x + load(skip + s) : x;
    };
  }

  const NeighbourTiles& p;
  HeadMatrices m;
  const E* qkv;
  const bool* mask;
  int64_t n = 0, h = 0, kind = 0, count = 0, patch = 0;
  std::vector<int64_t> queries, keys;
  const float* bias = nullptr;
  LaneVector<float> ignored, shifts, totals;
};

template <class E>
void forward_typed(const NeighbourTiles& p, const Tensor& qkv, const Tensor& mask, Tensor& y, Tensor& lse) {
  parallel_for(p.N * p.heads * p.rows.count(), 1, [&](int64_t begin, int64_t end) {
    TileWorker<E> worker(p, qkv.data<E>(), data_or_null<bool>(mask), false);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / p.rows.count();
      for (int64_t column = 0; column < p.columns.count(); ++column) {
        worker.begin_tile(head / p.heads, head % p.heads, i % p.rows.count(), column);
        worker.forward(y.data<E>(), lse.data<float>());
      }
    }
  });
}

template <class E>
void backward_typed(const NeighbourTiles& p, const Tensor& qkv, const Tensor& mask, const Tensor& lse,
                    const Tensor& dy, Tensor& dqkv, Tensor& dtable) {
  const int64_t entries = p.side() * p.side();
  Tensor parts = dtable.defined() ? Tensor::zeros({p.N, p.heads, entries}) : Tensor();
  parallel_for(p.N * p.heads, 1, [&](int64_t begin, int64_t end) {
    TileWorker<E> worker(p, qkv.data<E>(), data_or_null<bool>(mask), true);
    E* to = data_or_null<E>(dqkv);
    LaneVector<float> dk, dv, pairs;
    for (int64_t i = begin; i < end; ++i) {
      const auto values = static_cast<size_t>(to ? p.cells() * worker.padded_size() : 0);
      dk.assign(values, 0.0f);
      dv.assign(values, 0.0f);
      if (parts.defined()) pairs.assign(static_cast<size_t>(p.kinds() * p.T * p.Sp), 0.0f);
      for (int64_t tile = 0; tile < int64_t{p.rows.count()} * p.columns.count(); ++tile) {
        worker.begin_tile(i / p.heads, i % p.heads, tile / p.columns.count(), tile % p.columns.count());
        worker.backward(dy.data<E>(), lse.data<float>(), to, dk.data(), dv.data(),
                        parts.defined() ? pairs.data() : nullptr);
      }
      if (to) worker.store_key_gradients(i / p.heads, i % p.heads, dk.data(), dv.data(), to);
      if (!parts.defined()) continue;
      float* sums = parts.data<float>() + i * entries;
      for (int64_t kind = 0; kind < p.kinds(); ++kind)
        p.visit(kind, [&](int64_t at, int64_t entry, int64_t count) {
          const float* from = pairs.data() + kind * p.T * p.Sp + at;
          for (int64_t k = 0; k < count; ++k) sums[entry + k] += from[k];
        });
    }
  });
  if (!dtable.defined()) return;
  Tensor flat = dtable.reshape({p.heads, entries});
  sum_to_shape(parts, 1, flat);
}

void forward_cpu(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                 const NeighbourhoodParams& params, Tensor& y, Tensor& lse) {
  const NeighbourTiles p(qkv, table, params);
  dispatch_dtype<float, bf16>(qkv.dtype(), "neighbourhood_attention",
                              [&]<class E>() { forward_typed<E>(p, qkv, mask, y, lse); });
}

void backward_cpu(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                  const NeighbourhoodParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                  Tensor& dtable) {
  const NeighbourTiles p(qkv, table, params);
  dispatch_dtype<float, bf16>(qkv.dtype(), "neighbourhood_attention",
                              [&]<class E>() { backward_typed<E>(p, qkv, mask, lse, dy, dqkv, dtable); });
}

SACCADE_REGISTER_TUNED_KERNEL(neighbourhood_attention_forward, Device::kCpu, &forward_cpu,
                              &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(neighbourhood_attention_backward, Device::kCpu, &backward_cpu,
                              &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
