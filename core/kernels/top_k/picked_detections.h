// The detections that a detector's predictions come to, as rows that one copy takes to the host.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// (logit, box as (cx, cy, w, h), query, class, what is not finite): all predictions of an image are looked
// at, which its rows share out in order. The last number is 0 where a row's share is finite, else 1 + the
// place of the first such logit among the image's [Q, K], or without one, of a number of a box among [Q, 4],
// -1 - the place.
inline constexpr int64_t kPickedNumbers = 8;

// logits [N, Q, K], boxes [N, Q, 4], indices i64 [N, P] of pairs, query * classes + class with classes <=
// K -> rows [N, P, 8]; floats are f32, all contiguous, P > 0. Q K and 4 Q are less than 2^24.
inline Kernel<void(const Tensor& logits, const Tensor& boxes, const Tensor& indices, int64_t classes,
                   Tensor& rows)>
    pick_detections{"pick_detections"};

}  // namespace saccade::kernels
