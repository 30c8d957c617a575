// Operations of two-stage models on boxes on the device, where no step waits for the host and all shapes are
// known beforehand: a box that is dropped keeps its place but gets a score below those of all other boxes.
#pragma once

#include "autograd/ops.h"

namespace saccade {

// Dropped boxes have scores below this; all other scores and logits are above it.
inline constexpr double kLeftOut = -1e29;

// Drops boxes [N, K, 4] that overlap a better one of their group by more than the threshold; returns the new
// scores. scores, groups f32 [N, K]; groups: whole numbers below `count` (core/kernels/nms/nms.h).
Var suppressed(const Var& boxes, const Var& scores, const Var& groups, int64_t count, double threshold);
// Drops boxes without width or height.
Var without_flat(const Var& boxes, const Var& scores);

// The rows of `values` [N, K, C] with the best scores [N, K], at most `count`, best first.
struct BestRows {
  Tensor indices;  // i64 [N, count]
  Var of(const Var& values) const { return gather_rows(values, indices); }
};
BestRows best_rows(const Var& scores, int64_t count);

// Returns 1 for scores of boxes that were not dropped, else 0.
Var stays(const Var& scores);

// Returns the image of each of the rows [N, K], one image after the other: i64 [N K].
Tensor images_of_rows(const Var& rows);

// Converts to i64, for ops that take indices.
Tensor whole_numbers(const Var& numbers);

// Cuts regions out of a pyramid's levels: boxes [R, 4] in pixels, images i64 [R] -> [R, size, size, C]. A box
// uses the level where it has 14 to 28 cells a side, if there is one.
Var cut_regions(const Vars& levels, const Tensor& boxes, const Tensor& images,
                const RoiAlignOptions& options);

}  // namespace saccade
