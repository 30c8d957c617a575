// Greedy suppression of boxes that overlap a better one, for many images at once. Without gradients.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// boxes f32 [N, K, 4], corners; scores f32 [N, K]; groups i64 [N, K] -> keep bool [N, K]. By descending score
// (of equal ones the lower index first, NaN last) a box is kept if its IoU with no kept box of its group is
// above the threshold. Areas are products of sides (no + 1); an IoU is rounded to f32 before it is
// compared, as in torchvision. A box of a negative group is not kept and suppresses none. All contiguous.
inline Kernel<void(const Tensor& boxes, const Tensor& scores, const Tensor& groups, double threshold,
                   Tensor& keep)>
    nms{"nms"};

}  // namespace saccade::kernels
