// The points of one query and head, sixteen at a time: softmax of their logits, positions, corners and
// weights.
#pragma once

#include "core/kernels/common/lane_vector.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

namespace saccade::cpu {

// Constants of the points of a query, in the order of the logits, padded to whole vectors with copies of a
// real point.
struct PointTable {
  int64_t count, padded;
  LaneVector<float> width, height;
  LaneVector<int32_t> columns, rows, start, level;

  PointTable(const FeatureLevels& levels, int64_t P)
      : count(levels.size() * P), padded(round_up(count, kLanes)) {
    for (int64_t j = 0; j < padded; ++j) {
      int64_t l = std::min(j, count - 1) / P;
      width.push_back(static_cast<float>(levels[l].width));
      height.push_back(static_cast<float>(levels[l].height));
      columns.push_back(static_cast<int32_t>(levels[l].width));
      rows.push_back(static_cast<int32_t>(levels[l].height));
      start.push_back(static_cast<int32_t>(levels.start(l)));
      level.push_back(static_cast<int32_t>(l));
    }
  }
};

// Sixteen points of one query and head: corners c = 0..3 as in Bilinear. cell is a token index; weight does
// not include the attention weight and is 0 outside the map.
struct Chunk {
  Floats fx, fy, weight[4];
  Ints inside[4], cell[4];
  Floats step_x, step_y;  // d(pixel position)/d(offset)
  Floats offset_x, offset_y;
};

struct Inputs {
  const float *reference, *offsets, *logits;
  int64_t N, Q, M, L, P, K, S, D;
  int R;
};
// D: the channels of a head
inline Inputs inputs_of(int64_t D, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                        const FeatureLevels& levels) {
  return {reference.data<float>(),
          offsets.data<float>(),
          logits.data<float>(),
          offsets.dim(0),
          offsets.dim(1),
          offsets.dim(2),
          levels.size(),
          offsets.dim(4),
          levels.size() * offsets.dim(4),
          levels.tokens(),
          D,
          static_cast<int>(reference.dim(3))};
}

// j0: first point of the chunk, a multiple of 16. row = (n * Q + q) * M + m.
inline Chunk locate(const Inputs& in, const PointTable& t, int64_t row, int64_t j0) {
  Chunk c;
  const float* offsets = in.offsets + (row * in.K + j0) * 2;
  Floats a, b;
  int64_t left = in.K - j0;
  if (left >= kLanes) {
    a = load(offsets);
    b = load(offsets + kLanes);
  } else {
    alignas(64) float buffer[2 * kLanes] = {};
    std::memcpy(buffer, offsets, static_cast<size_t>(left) * 2 * sizeof(float));
    a = load(buffer);
    b = load(buffer + kLanes);
  }
  c.offset_x = even(a, b);
  c.offset_y = odd(a, b);
  const float* reference = in.reference + row / in.M * in.L * in.R;
  const int32_t* level = t.level.data() + j0;
  alignas(64) float ref[4][kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const float* r = reference + level[i] * in.R;
    ref[0][i] = r[0];
    ref[1][i] = r[1];
  }
  Floats width = load(t.width.data() + j0), height = load(t.height.data() + j0);
  if (in.R == 2) {
    c.step_x = c.step_y = broadcast(1.0f);
  } else {
    for (int i = 0; i < kLanes; ++i) {
      const float* r = reference + level[i] * in.R;
      ref[2][i] = r[2];
      ref[3][i] = r[3];
    }
    float half = 0.5f / static_cast<float>(in.P);
    c.step_x = load(ref[2]) * half * width;
    c.step_y = load(ref[3]) * half * height;
  }
  Floats x = load(ref[0]) * width + c.offset_x * c.step_x - 0.5f;
  Floats y = load(ref[1]) * height + c.offset_y * c.step_y - 0.5f;
  // Points that touch no cell, including NaNs, move to where all four corners are outside.
  x = select(x > -1.0f, x, broadcast(-2.0f));
  y = select(y > -1.0f, y, broadcast(-2.0f));
  x = min(x, width);
  y = min(y, height);
  Ints x0 = floor_to_int(x), y0 = floor_to_int(y);
  c.fx = x - to_floats(x0);
  c.fy = y - to_floats(y0);
  Ints columns = load(t.columns.data() + j0), rows = load(t.rows.data() + j0),
       start = load(t.start.data() + j0);
  Ints zero{};
  Ints in_x[2] = {(x0 >= 0) & (x0 < columns), (x0 >= -1) & (x0 + 1 < columns)};
  Ints in_y[2] = {(y0 >= 0) & (y0 < rows), (y0 >= -1) & (y0 + 1 < rows)};
  Ints cx[2] = {min(max(x0, zero), columns - 1), min(max(x0 + 1, zero), columns - 1)};
  Ints cy[2] = {start + min(max(y0, zero), rows - 1) * columns,
                start + min(max(y0 + 1, zero), rows - 1) * columns};
  Floats wx[2] = {1.0f - c.fx, c.fx}, wy[2] = {1.0f - c.fy, c.fy};
  for (int i = 0; i < 4; ++i) {
    c.inside[i] = in_x[i & 1] & in_y[i >> 1];
    c.cell[i] = cx[i & 1] + cy[i >> 1];
    c.weight[i] = select(c.inside[i], wx[i & 1] * wy[i >> 1], Floats{});
  }
  return c;
}

// Softmax of one row into weights[padded]; 0 after the last point.
inline void softmax(const float* logits, int64_t count, int64_t padded, float* weights) {
  Floats top = broadcast(-__builtin_inff());
  for (int64_t j = 0; j < padded; j += kLanes) {
    Floats z;
    if (count - j >= kLanes) {
      z = load(logits + j);
    } else {
      alignas(64) float buffer[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) buffer[i] = i < count - j ? logits[j + i] : -__builtin_inff();
      z = load(buffer);
    }
    store(weights + j, z);
    top = max(top, z);
  }
  float shift = maximum(top);
  Floats total{};
  for (int64_t j = 0; j < padded; j += kLanes) {
    Floats e = cpu::exp(load(weights + j) - shift);
    store(weights + j, e);
    total += e;
  }
  float scale = 1 / sum(total);
  for (int64_t j = 0; j < padded; j += kLanes) store(weights + j, load(weights + j) * scale);
}

}  // namespace saccade::cpu
