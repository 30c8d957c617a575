// Learned positions of the cells of a grid, and what they are on a grid of another size.
#pragma once

#include "autograd/ops.h"
#include "layers/constant_keeper.h"
#include "layers/resampling.h"

namespace saccade {

// positions [1, from.cells(), C], row by row -> [1, to.cells(), C], interpolated between the cells' centres;
// those of the edges hold outside. As they are where the grids are equal.
Var resized_positions(const Var& positions, const MapSize& from, const MapSize& to, Resampling resampling,
                      const ConstantKeeper& keeper);

}  // namespace saccade
