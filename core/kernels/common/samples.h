// Rows of bilinear samples, shared by deformable attention and grid sampling. Row (n, q, m) samples K points
// of the maps of image n and head m; a point has a position on one level and a weight. A Source
// (MsDeformSource, GridSource) defines where the points are and how their gradients are used. Its members:
//   Value = float or double, the type of coordinates and sums
//   kK = K if it is known at compile time, else 0
//   locate(s, row, k): the point's `at`, its position `x`, `y` in cells and its `level`
//   weights<kLanes>(s, row, sub): called by the kLanes threads of a row together, each with its `sub`; of(k)
//     of the result is the weight of point k
//   point_gradient(gradients, s, row, k, weight, dots, sums), dots: dy times the vectors of the corners; then
//     finish<kLanes>(gradients, s, row, valid, sub, weights, sums)
// The kernels are in samples_generic.h and, for the GPU, in sample_gather_cuda.h and sample_scatter_cuda.h. A
// position is always computed in the same way, with explicit fused products: kernels that compute it again
// must find it in the same cell, to the bit.
#pragma once

#include "core/kernels/common/bilinear.h"
#include "core/tensor/math.h"
#include "core/tensor/tensor.h"
#include "core/types/feature_levels.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

constexpr int kSlab = 16;  // points of a row that GPU threads locate at a time

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

// A query's index among all images, and the row of one of its heads.
struct SampleRow {
  int64_t query, row;
  int n, q, m;
};

// value [N, S, M, D]; rows [N, Q, M] of K points; result [N, Q, M, D].
struct SampleShape {
  int N, Q, M, D, K;
  SampleLevels levels;

  SampleShape(int64_t images, int64_t queries, int64_t heads, int64_t channels, int64_t points)
      : N(static_cast<int>(images)),
        Q(static_cast<int>(queries)),
        M(static_cast<int>(heads)),
        D(static_cast<int>(channels)),
        K(static_cast<int>(points)) {}
  int64_t rows() const { return int64_t{N} * Q * M; }
  SACCADE_HD SampleRow row(int n, int q, int m) const {
    int64_t query = static_cast<int64_t>(n) * Q + q;
    return {query, query * M + m, n, q, m};
  }
  // Row number i, ordered by image, head and query: neighbours read the same maps.
  SACCADE_HD SampleRow row(int64_t i) const {
    return row(static_cast<int>(i / Q / M), static_cast<int>(i % Q), static_cast<int>(i / Q % M));
  }
  // The index of head m's vector at the first token of image n.
  SACCADE_HD int64_t map(int n, int m) const { return (static_cast<int64_t>(n) * levels.tokens * M + m) * D; }
};

template <class A>
struct SamplePosition {
  Bilinear<A, int> at;
  A x, y;  // in cells
  int level;

  SACCADE_HD static SamplePosition of(const SampleShape& s, int level, A x, A y) {
    return {Bilinear<A, int>::at(x, y, s.levels.height[level], s.levels.width[level]), x, y, level};
  }
};

template <class A>
struct Two {
  A x, y;
};
// A Source uses this to read and write pairs and to add over the threads of a row; LaneAccess
// (samples_cuda.h) is the alternative.
struct ThreadAccess {
  template <class A>
  SACCADE_HD static Two<A> load(const A* p) {
    return {p[0], p[1]};
  }
  template <class A>
  SACCADE_HD static void store(A* p, Two<A> v) {
    p[0] = v.x, p[1] = v.y;
  }
  template <int, class A>
  SACCADE_HD static A max(A x) {
    return x;
  }
  template <int, class A>
  SACCADE_HD static A sum(A x) {
    return x;
  }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
