// Functions of linear_cuda.cpp that use cuBLASLt beyond the kernels of core/kernels/linear/linear.h.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade::cuda {

// y [M, N] = relu(x [M, K] w^T + residual + bias), operands as for linear_forward, residual like y. Returns
// false, and computes nothing, if the library has no algorithm for it.
bool linear_add_relu(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual, Tensor& y);

}  // namespace saccade::cuda
