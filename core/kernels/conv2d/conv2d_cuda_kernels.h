// Our own GPU kernels for convolutions, of f32 and bf16 with sums in f32. Operands are as in conv2d.h.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/kernels/conv2d/conv2d.h"
#include "core/tensor/tensor.h"

namespace saccade::cuda {

// Depthwise convolutions: every channel has its own window (groups == C == O). Returns whether this weight
// belongs to one, with a window that fits shared memory.
bool is_depthwise(const Shape& w, const kernels::ConvParams& p);

void depthwise_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const kernels::ConvParams& p,
                       Activation act, Tensor& y);
void depthwise_backward_data(const Tensor& dy, const Tensor& w, const kernels::ConvParams& p, Tensor& dx);
void depthwise_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p, Tensor& dw);

// Replaces y [..., C], f32 or bf16, by act(y + residual + bias); bias [C] f32 or undefined, residual like y
// or undefined, act kNone or kRelu.
void conv_epilogue(const Tensor& bias, const Tensor& residual, Activation act, Tensor& y);

// Copies every stride-th pixel, which are those that a strided 1x1 convolution reads, so that it is a matrix
// product too. x [N, H, W, C], f32 or bf16 -> y [N, OH, OW, C]: y[n, h, w] = x[n, stride h, stride w]
void pick_pixels(const Tensor& x, int64_t stride, Tensor& y);
// The reverse: x[n, stride h, stride w] = y[n, h, w], and 0 between them.
void spread_pixels(const Tensor& y, int64_t stride, Tensor& x);

}  // namespace saccade::cuda
