// The detections selected from a detector's predictions, as rows that one copy takes to the host.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// (logit, box as (cx, cy, w, h), query, class, first non-finite number): all predictions of an image are
// checked; its rows divide them in order. The last number is 0 if a row's share is finite, else 1 + the index
// of the first such logit in the image's [Q, K] or, if there is none, -1 - the index of the first such number
// of a box in [Q, 4].
inline constexpr int64_t kPickedNumbers = 8;

// logits [N, Q, K], boxes [N, Q, 4], indices i64 [N, P] of pairs, query * classes + class with classes <= K
// -> rows [N, P, 8]; floats are f32, all contiguous, P > 0. Q K and 4 Q are less than 2^24.
inline Kernel<void(const Tensor& logits, const Tensor& boxes, const Tensor& indices, int64_t classes,
                   Tensor& rows)>
    pick_detections{"pick_detections"};

}  // namespace saccade::kernels
