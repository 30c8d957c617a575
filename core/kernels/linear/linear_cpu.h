// The tuned linear_forward with a shift after the activation, as conv2d_relu_shift needs it.
#pragma once

#include "core/kernels/linear/linear.h"

namespace saccade::cpu {

// y = act(x w^T + bias) + shift; otherwise like kernels::linear_forward, f32 or bf16, and nothing is empty.
void linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, float shift,
                    Tensor& y);

}  // namespace saccade::cpu
