// Where the cells of a map are: cell (y, x) has its centre at ((x + 0.5) / width, (y + 0.5) / height).
#pragma once

#include "autograd/var.h"
#include "core/types/feature_levels.h"

namespace saccade {

// The centre of cell i of an axis of `length` cells, as a part of the axis.
template <class T>
T cell_centre(int64_t i, T length) {
  return (static_cast<T>(i) + T(0.5)) / length;
}

// All centres of a map as (x, y), in coordinates that run from `low` to `high` across it. f64 [1, H * W, 2]
Tensor cell_centres(MapSize map, double low, double high);

// The reference points of a map's own tokens [N, H * W, C] for layers that look around points, normalised by the
// map: [N, H * W, 1, 2] on the tokens' device, f32 (f64 with f64 tokens).
Var reference_points(const Var& tokens, MapSize map);

}  // namespace saccade
