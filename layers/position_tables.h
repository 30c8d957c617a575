// Resizes positions that were learned on images of one size for those of another; the ParameterResize of
// their parameters.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// Absolute positions [1, extra + n^2, C] of the cells of a square grid, preceded by those of up to two other
// tokens, which stay as they are. Resized as in timm: cubic, antialiased when shrinking.
Tensor resize_positions(const Tensor& values, const Shape& to);
// The same, but linear and with at most one other row in front: PVT's.
Tensor resize_positions_linearly(const Tensor& values, const Shape& to);
// Swin's relative position bias [(2 window - 1)^2, heads]. Resized as in timm (and BEiT): entries near the
// middle stay near it, farther ones are spread in growing steps, with linear interpolation between them.
Tensor spread_bias_rows(const Tensor& values, const Shape& to);
// DAT's table of the same form, and that of its deformable attention [heads, rows, columns]: cubic, as the
// authors do it.
Tensor resize_bias_rows(const Tensor& values, const Shape& to);
Tensor resize_bias_maps(const Tensor& values, const Shape& to);

}  // namespace saccade
