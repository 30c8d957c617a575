// The points of grid sampling as a Source of samples.h: rows of one point, which has weight 1. A group of
// channels takes the role of a head.
#pragma once

#include "core/kernels/common/samples.h"
#include "core/kernels/grid_sample/grid_sample.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

inline SampleShape shape_of_grid(const Tensor& x, const Tensor& grid) {
  SampleShape s(x.dim(0), grid.dim(2), grid.dim(1), x.dim(3) / grid.dim(1), 1);
  s.levels.push_back({x.dim(1), x.dim(2)});
  return s;
}

template <class A, class Access = ThreadAccess>
struct GridSource {
  using Value = A;
  static constexpr int kK = 1;
  const A* grid;  // [N, G, P, 2]
  A scale_x, scale_y, shift;

  GridSource(const Tensor& x, const Tensor& points, bool align_corners)
      : grid(points.data<A>()),
        scale_x(static_cast<A>(align_corners ? x.dim(2) - 1 : x.dim(2)) * A(0.5)),
        scale_y(static_cast<A>(align_corners ? x.dim(1) - 1 : x.dim(1)) * A(0.5)),
        shift(align_corners ? A(0) : A(0.5)) {}

  SACCADE_HD int64_t point_of(const SampleShape& s, const SampleRow& row) const {
    return (static_cast<int64_t>(row.n) * s.M + row.m) * s.Q + row.q;
  }
  SACCADE_HD SamplePosition<A> locate(const SampleShape& s, const SampleRow& row, int) const {
    auto at = Access::load(grid + 2 * point_of(s, row));
    return SamplePosition<A>::of(s, 0, math::fma(at.x + 1, scale_x, -shift),
                                 math::fma(at.y + 1, scale_y, -shift));
  }
  struct Weights {
    SACCADE_HD A of(int) const { return 1; }
  };
  template <int kLanes>
  SACCADE_HD Weights weights(const SampleShape&, const SampleRow&, int) const {
    return {};
  }
  struct Gradients {
    A* dgrid;  // may be null
  };
  struct Sums {};
  SACCADE_HD void point_gradient(const Gradients& out, const SampleShape& s, const SampleRow& row, int k, A,
                                 const A (&dots)[4], Sums&) const {
    if (!out.dgrid) return;
    auto at = locate(s, row, k).at;
    Access::store(out.dgrid + 2 * point_of(s, row),
                  Two<A>{at.slope_x(dots) * scale_x, at.slope_y(dots) * scale_y});
  }
  template <int kLanes>
  SACCADE_HD void finish(const Gradients&, const SampleShape&, const SampleRow&, bool, int, const Weights&,
                         const Sums&) const {}
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
