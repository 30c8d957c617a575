// What stands out in a row: which elements are the largest (proposals that become queries), and how large the
// largest is (the score of a token over its classes). Without gradients.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// scores f32 [N, S] -> indices i64 [N, K], 0 < K <= S: the K largest of each row, by falling score. Equal
// scores (0 and -0 too) come by rising index, NaN after all numbers. Both contiguous.
inline Kernel<void(const Tensor& scores, Tensor& indices)> top_k{"top_k"};
// x [.., K], floating -> y [..] of the type x accumulates in: the largest of each row, NaN where one is NaN.
// K > 0, both contiguous.
inline Kernel<void(const Tensor& x, Tensor& y)> row_max{"row_max"};

}  // namespace saccade::kernels
