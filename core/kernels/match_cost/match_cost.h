// The cost of matching a query with an object (Carion et al. 2020; the class cost of the sigmoid models is
// that of Deformable DETR). It runs on the device of the predictions: one small tensor goes to the host.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct MatchCostParams {
  double class_cost, bbox_cost, giou_cost;
  double alpha, gamma;  // of the focal terms
  bool probabilities;   // class cost = -scores[n, q, label]; else from logits, as in match_cost.cpp
};
// cost[r, q] of object r and query q of its image n = images[r]. scores f32 [N, Q, K], boxes f32 [N, Q, 4] as
// (cx, cy, w, h), images and labels i64 [R], truth f32 [R, 4], cost f32 [R, Q]; all contiguous. A NaN in a
// prediction gives a NaN cost.
inline Kernel<void(const Tensor& scores, const Tensor& boxes, const Tensor& images, const Tensor& labels,
                   const Tensor& truth, const MatchCostParams& params, Tensor& cost)>
    match_cost{"match_cost"};

}  // namespace saccade::kernels
