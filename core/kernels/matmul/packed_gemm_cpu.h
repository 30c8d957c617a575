// Our own matrix product. That of oneDNN 2 has no bf16 without AVX-512, and an f32 whose last bits depend on
// the number of threads and on what else is multiplied. Here every element is summed over k in the same way,
// however the work is cut.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/tensor/tensor.h"

namespace saccade::cpu {

// c [B, M, N] = act(a [B or 1, M, K] b [B or 1, K, N] + bias [N]); a and b of one dtype, f32 or bf16, with
// any strides; c contiguous, of that dtype or f32; bias f32 or undefined; nothing empty;
// act none or ReLU. Sums in f32.
void packed_gemm(const Tensor& a, const Tensor& b, Tensor& c, const Tensor& bias = {},
                 Activation act = Activation::kNone);

}  // namespace saccade::cpu
