// Batched matrix product.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// c = a b: a [B or 1, M, K], b [B or 1, K, N], any strides, one floating dtype; c [B, M, N] contiguous, of
// the same dtype or its acc_t. K = 0 gives zeros.
inline Kernel<void(const Tensor& a, const Tensor& b, Tensor& c)> matmul{"matmul"};

}  // namespace saccade::kernels
