// What a model of two stages does with boxes on the device, where no step waits for the host and all shapes
// are known beforehand: a box that is left out stays where it is, with a score that no other box has.
#pragma once

#include "autograd/ops.h"

namespace saccade {

// The score of what has been left out is lower than this one; scores and logits are higher.
inline constexpr double kLeftOut = -1e29;

// The scores f32 [N, K], those of boxes [N, K, 4] that overlap a better one of their group f32 [N, K] (a
// whole number below `count`) by more than the threshold left out (core/kernels/nms/nms.h).
Var suppressed(const Var& boxes, const Var& scores, const Var& groups, int64_t count, double threshold);
// Those of boxes without a width or height left out.
Var without_flat(const Var& boxes, const Var& scores);

// The rows of `values` [N, K, C] with the best scores [N, K], at most `count`, best first.
struct BestRows {
  Tensor indices;  // i64 [N, count]
  Var of(const Var& values) const { return gather_rows(values, indices); }
};
BestRows best_rows(const Var& scores, int64_t count);

// 1 where a score is none of something left out, else 0.
Var stays(const Var& scores);

// The image of each of the rows [N, K], one image after the other: i64 [N K].
Tensor images_of_rows(const Var& rows);

// As i64, for ops that take indices.
Tensor whole_numbers(const Var& numbers);

// Maps cut out of a pyramid's levels: boxes [R, 4] in pixels, images i64 [R] -> [R, size, size, C]. A box is
// on the level where it has 14 to 28 cells a side, if there is one.
Var cut_regions(const Vars& levels, const Tensor& boxes, const Tensor& images,
                const RoiAlignOptions& options);

}  // namespace saccade
