// Bilinear sampling of maps at arbitrary positions, zeros outside.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// x [N, H, W, C], grid [N, G, P, 2] as (x, y) in [-1, 1] -> y [N, P, C] of x's dtype: group g of C / G
// neighbouring channels is sampled at points g. grid is f64 with f64 x, f32 otherwise. align_corners: -1 and
// 1 are the centres of the outermost cells; otherwise their outer edges. All contiguous.
inline Kernel<void(const Tensor& x, const Tensor& grid, bool align_corners, Tensor& y)> grid_sample_forward{
    "grid_sample_forward"};
// Gradients of dot(y, dy) in the dtypes of their inputs; undefined outputs are skipped. Deterministic: dx of
// a block of channels of one image is summed by one owner in the order of the points.
inline Kernel<void(const Tensor& x, const Tensor& grid, bool align_corners, const Tensor& dy, Tensor& dx,
                   Tensor& dgrid)>
    grid_sample_backward{"grid_sample_backward"};

}  // namespace saccade::kernels
