// Matrices that resample values on the cells of one axis to another number of cells, for tables of positions.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// Cubic: a = -0.75. Smooth cubic: a = -0.5, widened when the grid shrinks (torch's with antialias), with the
// weights of the existing cells normalised to 1.
enum class Resampling { kLinear, kCubic, kSmoothCubic };

// f32 [to, from]: interpolates between the cells' centres, where both axes have the same ends; outside, the
// edge values continue.
Tensor resampling_matrix(Resampling resampling, int64_t from, int64_t to);

}  // namespace saccade
