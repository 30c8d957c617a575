// What the kernels of deformable attention and grid sampling share: rows of bilinear samples. Row (n, q, m)
// looks at K points of the maps of image n and head m; a point has a position on one level and a weight.
// Where they lie and what becomes of their gradients is the business of a Source (ms_deform_source.h,
// grid_sample.cu). A position is computed in one way only, with explicit fused products: kernels that meet it
// again must find it in the same cell, to the bit.
#pragma once

#include <cmath>

#include "core/runtime/cuda/block.h"
#include "core/tensor/tensor.h"
#include "core/types/feature_levels.h"

namespace saccade::cuda {

// FeatureLevels in 32 bits, for kernels.
struct SampleLevels {
  static constexpr int kMax = FeatureLevels::kMax;
  int count = 0, tokens = 0;
  int height[kMax] = {}, width[kMax] = {}, start[kMax] = {};

  void push_back(const MapSize& map) {
    height[count] = static_cast<int>(map.height);
    width[count] = static_cast<int>(map.width);
    start[count++] = tokens;
    tokens += static_cast<int>(map.cells());
  }
};

// A query among all images, and the row of one of its heads.
struct SampleRow {
  int64_t query, row;
  int n, q, m;
};

// value [N, S, M, D]; rows [N, Q, M] of K points; result [N, Q, M, D].
struct SampleShape {
  int N, Q, M, D, K;
  SampleLevels levels;

  __device__ __forceinline__ SampleRow row(int n, int q, int m) const {
    int64_t query = static_cast<int64_t>(n) * Q + q;
    return {query, query * M + m, n, q, m};
  }
  // The vector of head m at the first token of image n.
  __device__ __forceinline__ int64_t map(int n, int m) const {
    return (static_cast<int64_t>(n) * levels.tokens * M + m) * D;
  }
};

// Whether the kernels' 32-bit indices, within an image and within a head's points, are wide enough.
inline bool indices_fit(int64_t N, int64_t Q, int64_t M, int64_t D, int64_t K, int64_t S) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  return S < kLimit && M < kLimit && D < kLimit && Q < kLimit && K < kLimit && S * M < kLimit &&
         S * M * D < kLimit && Q * K < kLimit && N * M < 65536;
}

// The cells around a position, as kernels::Bilinear: x0 and y0 start at -1.
struct SamplePoint {
  int x0 = 0, y0 = 0;
  float fx = 0, fy = 0;
  bool touches = false;  // at least one corner lies inside; false for NaN

  static __device__ __forceinline__ SamplePoint at(float x, float y, int height, int width) {
    SamplePoint p;
    p.touches = x > -1.0f && y > -1.0f && x < static_cast<float>(width) && y < static_cast<float>(height);
    if (!p.touches) return p;
    float xf = std::floor(x), yf = std::floor(y);
    p.x0 = static_cast<int>(xf);
    p.y0 = static_cast<int>(yf);
    p.fx = x - xf;
    p.fy = y - yf;
    return p;
  }
  __device__ __forceinline__ float weight(int corner) const {
    return (corner & 1 ? fx : 1 - fx) * (corner >> 1 ? fy : 1 - fy);
  }
  // Given the derivatives by the corners' weights: those by x and y.
  __device__ __forceinline__ float slope_x(const float (&d)[4]) const {
    return (1 - fy) * (d[1] - d[0]) + fy * (d[3] - d[2]);
  }
  __device__ __forceinline__ float slope_y(const float (&d)[4]) const {
    return (1 - fx) * (d[2] - d[0]) + fx * (d[3] - d[1]);
  }
};

// A point ready to be read: per corner an offset from the head's first vector, -1 outside, and its weight
// times the point's, 0 outside.
struct alignas(16) SampleCorners {
  int offset[4];
  float weight[4];

  // stride: from cell to cell.
  static __device__ __forceinline__ SampleCorners of(const SamplePoint& p, float weight,
                                                     const SampleLevels& levels, int level, int stride) {
    SampleCorners out;
    int height = levels.height[level], width = levels.width[level];
    for (int c = 0; c < 4; ++c) {
      int x = p.x0 + (c & 1), y = p.y0 + (c >> 1);
      bool inside = p.touches && x >= 0 && y >= 0 && x < width && y < height;
      out.offset[c] = inside ? (levels.start[level] + y * width + x) * stride : -1;
      out.weight[c] = inside ? p.weight(c) * weight : 0.0f;
    }
    return out;
  }
};

// Which queries a block takes: kQueries that lie near one another, so that they read the same lines. Where
// the queries are the cells of the maps (an encoder) these are 8 x 8 cells of a level, otherwise neighbours
// in order.
struct QueryOrder {
  static constexpr int kQueries = 64, kSide = 8;
  int Q = 0, per_group = kQueries, groups = 0;
  bool tiled = false;
  int tiles_x[SampleLevels::kMax] = {}, first[SampleLevels::kMax + 1] = {};

  static QueryOrder of(const SampleShape& s) {
    QueryOrder o;
    o.Q = s.Q;
    o.tiled = s.Q == s.levels.tokens;
    if (o.tiled) {
      for (int l = 0; l < s.levels.count; ++l) {
        o.tiles_x[l] = (s.levels.width[l] + kSide - 1) / kSide;
        o.first[l + 1] = o.first[l] + o.tiles_x[l] * ((s.levels.height[l] + kSide - 1) / kSide);
      }
      o.groups = o.first[s.levels.count];
      return o;
    }
    // Small problems (a decoder's) are spread over more blocks.
    constexpr int64_t kSmallProblem = 1 << 16;
    if (int64_t{s.N} * s.Q * s.M < kSmallProblem) o.per_group = kQueries / 4;
    o.groups = (s.Q + o.per_group - 1) / o.per_group;
    return o;
  }
  // -1 when there is none.
  __device__ __forceinline__ int query(const SampleLevels& levels, int group, int i) const {
    if (!tiled) {
      int q = group * per_group + i;
      return i < per_group && q < Q ? q : -1;
    }
    int l = 0;
    while (group >= first[l + 1]) ++l;
    int tile = group - first[l], x = tile % tiles_x[l] * kSide + i % kSide,
        y = tile / tiles_x[l] * kSide + i / kSide;
    return x < levels.width[l] && y < levels.height[l] ? levels.start[l] + y * levels.width[l] + x : -1;
  }
};

}  // namespace saccade::cuda
