// Depthwise convolutions on the GPU: every channel has a window of its own (groups == C == O). f32 and bf16,
// sums in f32. Operands as in core/kernels/conv2d/conv2d.h.
#pragma once

#include "core/kernels/conv2d/conv2d.h"

namespace saccade::cuda {

// Whether the kernels below take this weight: depthwise, with a window that fits shared memory.
bool is_depthwise(const Shape& w, const kernels::ConvParams& p);

void depthwise_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const kernels::ConvParams& p,
                       Activation act, Tensor& y);
void depthwise_backward_data(const Tensor& dy, const Tensor& w, const kernels::ConvParams& p, Tensor& dx);
void depthwise_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p, Tensor& dw);

}  // namespace saccade::cuda
