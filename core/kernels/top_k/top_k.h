// The largest elements of a row (proposals that become queries), and the largest value (the score of a token
// over its classes). Without gradients.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// scores f32 [N, S] -> indices i64 [N, K], 0 < K <= S: the K largest of each row, in descending order. Equal
// scores (also 0 and -0) are ordered by ascending index, NaN after all numbers. Both contiguous.
inline Kernel<void(const Tensor& scores, Tensor& indices)> top_k{"top_k"};
// x [.., K], floating -> y [..] of x's accumulation type: the largest of each row, NaN if one is NaN. K > 0,
// both contiguous.
inline Kernel<void(const Tensor& x, Tensor& y)> row_max{"row_max"};

}  // namespace saccade::kernels
