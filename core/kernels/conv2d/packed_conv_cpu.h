// Convolutions for processors without AVX-512, on which oneDNN 2 has no bf16 and computes gradients of
// weights at a seventh of the processor's rate: products with the windows of an image as one factor, which
// are gathered while they are packed. The bits do not depend on the number of threads.
#pragma once

#include "core/kernels/conv2d/conv2d.h"

namespace saccade::cpu {

// Like the kernels of conv2d.h, `shift` as in conv2d_relu_shift, with one group; the gradient of the data
// only with stride 1.
void packed_conv_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const kernels::ConvParams& p,
                         Activation act, Tensor& y, float shift = 0);
void packed_conv_backward_data(const Tensor& dy, const Tensor& w, const kernels::ConvParams& p, Tensor& dx);
void packed_conv_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p, Tensor& dw);

}  // namespace saccade::cpu
