// Positions that were learned on images of one size, for those of another:
// the ParameterResize of what holds them.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// Absolute positions [1, extra + n^2, C] of the cells of a square grid, behind those of up to two tokens that
// are no cells, which stay. As timm resizes them: cubic, smoothed where the grid shrinks.
Tensor resize_positions(const Tensor& values, const Shape& to);
// The same, linear, with one row at most in front: PVT's.
Tensor resize_positions_linearly(const Tensor& values, const Shape& to);
// A relative position bias [(2 window - 1)^2, heads], Swin's. As timm (and BEiT) resizes it: what is near
// the middle stays near it, farther entries are spread in growing steps, and between them it is linear.
Tensor spread_bias_rows(const Tensor& values, const Shape& to);
// The same table of DAT, and the one [heads, rows, columns] of its deformable attention: cubic,
// as its authors do.
Tensor resize_bias_rows(const Tensor& values, const Shape& to);
Tensor resize_bias_maps(const Tensor& values, const Shape& to);

}  // namespace saccade
