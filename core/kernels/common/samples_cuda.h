// Shared by the GPU kernels over rows of samples (samples.h).
#pragma once

#include "core/kernels/common/samples.h"
#include "core/runtime/cuda/block.h"

namespace saccade::cuda {

using kernels::SampleLevels, kernels::SamplePosition, kernels::SampleRow, kernels::SampleShape,
    kernels::kSlab;
using SamplePoint = kernels::Bilinear<float, int>;

// Moves pairs in one access, and sums over the lanes of a row.
struct LaneAccess {
  static __device__ __forceinline__ kernels::Two<float> load(const float* p) {
    auto v = load_pack<2>(p);
    return {v.x[0], v.x[1]};
  }
  static __device__ __forceinline__ void store(float* p, kernels::Two<float> v) {
    store_pack<2>(p, {v.x, v.y});
  }
  template <int kLanes>
  static __device__ __forceinline__ float max(float x) {
    if constexpr (kLanes > 1) x = warp_max<kLanes>(x);
    return x;
  }
  template <int kLanes>
  static __device__ __forceinline__ float sum(float x) {
    if constexpr (kLanes > 1) x = warp_sum<kLanes>(x);
    return x;
  }
};

// Returns whether 32-bit indices, within an image and within a head's points, suffice for the kernels.
inline bool indices_fit(int64_t N, int64_t Q, int64_t M, int64_t D, int64_t K, int64_t S) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  return S < kLimit && M < kLimit && D < kLimit && Q < kLimit && K < kLimit && S * M < kLimit &&
         S * M * D < kLimit && Q * K < kLimit && N * M < 65536;
}

// A point ready to be read: per corner an offset from the head's first vector, -1 outside, and the corner's
// weight times the point's, 0 outside.
struct alignas(16) SampleCorners {
  int offset[4];
  float weight[4];

  // stride: the distance between cells.
  static __device__ __forceinline__ SampleCorners of(const SamplePosition<float>& p, float weight,
                                                     const SampleLevels& levels, int stride) {
    SampleCorners out;
    for (int c = 0; c < 4; ++c) {
      int cell = p.at.cell(c, levels.height[p.level], levels.width[p.level]);
      out.offset[c] = cell >= 0 ? (levels.start[p.level] + cell) * stride : -1;
      out.weight[c] = cell >= 0 ? p.at.weight(c) * weight : 0.0f;
    }
    return out;
  }
};

// The queries that a block takes: kQueries queries close to each other, so that they read the same lines. If
// the queries are the cells of the maps (an encoder), these are 8 x 8 cells of a level, otherwise consecutive
// ones.
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
  // The queries of one block.
  struct Group {
    int first, pitch, columns, rows, end;
    // Number i of per_group, or -1 if there is none.
    __device__ __forceinline__ int query(int i) const {
      int x = i % kSide, y = i / kSide, q = first + y * pitch + x;
      return x < columns && y < rows && q < end ? q : -1;
    }
  };
  __device__ __forceinline__ Group group(const SampleLevels& levels, int index) const {
    if (!tiled) return {index * per_group, kSide, kSide, per_group / kSide, Q};
    int l = 0;
    while (index >= first[l + 1]) ++l;
    int tile = index - first[l], y = tile / tiles_x[l], width = levels.width[l];
    int x0 = (tile - y * tiles_x[l]) * kSide, y0 = y * kSide;
    return {levels.start[l] + y0 * width + x0, width, width - x0, levels.height[l] - y0, Q};
  }
};

}  // namespace saccade::cuda
