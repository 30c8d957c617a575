// The linear layer's three products. Matrices are contiguous; x, w, y, dz, dx have one floating dtype T; bias
// and the weight gradient have acc_t<T>, and y may have it.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y [M, N] = act(x [M, K] w^T + bias), w [N, K], bias [N] or undefined; act must satisfy fuses_into_products
inline Kernel<void(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, Tensor& y)>
    linear_forward{"linear_forward"};
// dx [M, K] = dz [M, N] w
inline Kernel<void(const Tensor& dz, const Tensor& w, Tensor& dx)> linear_backward_data{
    "linear_backward_data"};
// dw [N, K] = dz^T x; M = 0 gives zeros
inline Kernel<void(const Tensor& dz, const Tensor& x, Tensor& dw)> linear_backward_weight{
    "linear_backward_weight"};

}  // namespace saccade::kernels
