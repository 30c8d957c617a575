// 3x3 convolutions of stride 1 by Winograd's algorithm F(4x4, 3x3) (Lavin and Gray, arXiv:1509.09308) on processors without AVX-512, where
// oneDNN has none: 36 products for 16 positions instead of 144. The bits do not depend on the number of threads, nor on the
// other images of a batch but in the gradient of the weights, which sums over them.
#pragma once

#include "core/kernels/conv2d/conv2d.h"

namespace saccade::cpu {

// As the kernels of conv2d.h, with padding 1, without dilation, with one group and channels in multiples of kLanes.
void winograd_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, Tensor& y);
void winograd_backward_data(const Tensor& dy, const Tensor& w, Tensor& dx);
void winograd_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw);

}  // namespace saccade::cpu
