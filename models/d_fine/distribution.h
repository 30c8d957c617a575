// Fine-grained distribution refinement (Peng et al. 2024, D-FINE, section 3.1): each side of a box is the
// mean of a distribution over bins, as a distance from a reference box.
#pragma once

#include "autograd/ops.h"

namespace saccade {

constexpr int64_t kSides = 4;  // left, top, right, bottom

struct BinScale {
  Var values;  // f32 [R + 1]: W(n), the value of bin n (eq. 2)
  Var scale;   // f32 [1]: divides the reference's size
};
// up, scale: f32 [1]; bins: R, even
BinScale make_bin_scale(const Var& up, const Var& scale, int64_t bins);

// logits [N, Q, 4 (R + 1)] -> the probabilities of the bins, f32 [N, Q, 4, R + 1]
Var side_probabilities(const Var& logits);
// probabilities [N, Q, 4, R + 1] and references [N, Q, 4] as (cx, cy, w, h) -> boxes in the same form
Var boxes_of_sides(const Var& probabilities, const Var& references, const BinScale& bins);

// The target probabilities for references [P, 4] and true boxes [P, 4], both (cx, cy, w, h): they are split
// between the two bins next to a side's position, [P, 4, R + 1]; beyond the outermost bin all goes to it.
Var side_targets(const Var& references, const Var& truth, const BinScale& bins);

}  // namespace saccade
