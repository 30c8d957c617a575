#pragma once

#include "core/kernels/activation/activations.h"
#include "core/tensor/tensor.h"

namespace saccade::cuda {

// y [..., C], f32 or bf16, becomes act(y + residual + bias); bias [C] f32 or undefined, residual like y or
// undefined, act kNone or kRelu.
void conv_epilogue(const Tensor& bias, const Tensor& residual, Activation act, Tensor& y);

}  // namespace saccade::cuda
