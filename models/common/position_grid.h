// Learned positions of the cells of a grid, and what they are on a grid of another size.
#pragma once

#include "autograd/ops.h"
#include "layers/constant_keeper.h"

namespace saccade {

// Cubic: a = -0.75; smooth cubic: a = -0.5, over as many cells as are left out where the grid shrinks (torch's with antialias), the
// weights of the cells that there are adding up to 1.
enum class Resampling { kLinear, kCubic, kSmoothCubic };

// positions [1, from.cells(), C], row by row -> [1, to.cells(), C], interpolated between the cells' centres; those of the edges
// hold outside. As they are where the grids are equal.
Var resized_positions(const Var& positions, const MapSize& from, const MapSize& to, Resampling resampling,
                      const ConstantKeeper& keeper);

}  // namespace saccade
