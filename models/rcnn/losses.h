// Sums of losses of rows, each times its weight f32 [R] and all of them times `factor`; 0 of no rows.
#pragma once

#include "autograd/ops.h"

namespace saccade {

// logits [R, K]; labels i64 [R]: the decision that is a yes, or -1
Var weighted_binary_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights,
                                  double factor);
// logits [R, K]; labels i64 [R] in [0, K)
Var weighted_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights, double factor);
// deltas and targets [R, 4]; smooth: differences below it are squared (d^2 / 2 smooth), 0: none are
Var weighted_l1(const Var& deltas, const Tensor& targets, const Tensor& weights, double factor,
                double smooth = 0);
// boxes and targets [R, 4] as corners
Var weighted_giou(const Var& boxes, const Tensor& targets, const Tensor& weights, double factor);

}  // namespace saccade
