// 2-D convolution (cross-correlation) on [N, H, W, C] with weights [O, C / groups, R, S].
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct ConvParams {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// The output size along one axis; not positive if the window does not fit.
inline int64_t conv_output_size(int64_t size, int64_t window, const ConvParams& p) {
  int64_t room = size + 2 * p.padding - p.dilation * (window - 1) - 1;
  return room < 0 ? 0 : room / p.stride + 1;
}

// Whether the kernels below read a weight in another order than its own: on the GPU [O, R, S, C / groups],
// which cuDNN wants.
inline bool conv_weight_has_order(const Tensor& w) {
  return w.device() != Device::kCpu && w.dim(1) != 1 && w.dim(2) * w.dim(3) != 1;
}
// Returns the weight in that order; the weight itself if it already has it.
inline Tensor conv_weight_in_order(const Tensor& w) {
  if (!conv_weight_has_order(w)) return w.contiguous();
  return w.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
}

// All contiguous; x [N, H, W, C], w, y [N, OH, OW, O] and their gradients have one floating dtype T; bias [O]
// (or undefined) and dw have acc_t<T>. act must satisfy fuses_into_products. On the GPU w may have any
// strides if it has several input channels and a window; then those of [O, R, S, C] cost nothing.
inline Kernel<void(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p, Activation act,
                   Tensor& y)>
    conv2d_forward{"conv2d_forward"};
// y = relu(convolution + bias + residual), where residual is like y.
inline Kernel<void(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
                   const ConvParams& p, Tensor& y)>
    conv2d_add_relu{"conv2d_add_relu"};
// y = relu(convolution + bias) + shift, where shift [1] has the bias's dtype.
inline Kernel<void(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& shift,
                   const ConvParams& p, Tensor& y)>
    conv2d_relu_shift{"conv2d_relu_shift"};
inline Kernel<void(const Tensor& dy, const Tensor& w, const ConvParams& p, Tensor& dx)> conv2d_backward_data{
    "conv2d_backward_data"};
inline Kernel<void(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw)>
    conv2d_backward_weight{"conv2d_backward_weight"};

}  // namespace saccade::kernels
