// Values on the cells of an axis, on an axis of another number of cells: as matrices,
// for tables of positions.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// Cubic: a = -0.75; smooth cubic: a = -0.5, over as many cells as are left out where the grid shrinks
// (torch's with antialias), the weights of the cells that there are adding up to 1.
enum class Resampling { kLinear, kCubic, kSmoothCubic };

// f32 [to, from]: interpolation between the cells' centres, both axes having the same ends;
// what the edges have holds outside.
Tensor resampling_matrix(Resampling resampling, int64_t from, int64_t to);

}  // namespace saccade
