// Our own matrix product. That of oneDNN 2 has no bf16 without AVX-512, and its f32 product has last bits
// that depend on the number of threads and on the rest of the matrix. Here every element is summed over k in
// the same way, however the work is divided.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/tensor/tensor.h"

namespace saccade::cpu {

// c [B, M, N] = act(a [B or 1, M, K] b [B or 1, K, N] + bias [N]) + shift; a and b have one dtype, f32 or
// bf16, and any strides; c is contiguous, of that dtype or f32; bias is f32 or undefined; nothing is empty;
// act is none or ReLU. Sums are in f32.
void packed_gemm(const Tensor& a, const Tensor& b, Tensor& c, const Tensor& bias = {},
                 Activation act = Activation::kNone, float shift = 0);

}  // namespace saccade::cpu
