// Convolutions on the GPU: 1x1 ones are matrix products, depthwise ones have kernels of their own.
#include "core/kernels/conv2d.h"

#include "core/cuda/depthwise.h"
#include "core/kernels/linear.h"

namespace saccade::kernels {
namespace {

// Not f64, nothing empty, and pixels that an int counts.
bool ours(const Tensor& a, const Tensor& b, const Tensor& w) {
  return a.dtype() != DType::kF64 && a.numel() > 0 && b.numel() > 0 && w.numel() > 0 &&
         std::max(a.numel(), b.numel()) < INT32_MAX;
}
bool is_product(const Shape& w, const ConvParams& p) {
  return w[2] == 1 && w[3] == 1 && p.stride == 1 && p.padding == 0 && p.groups == 1;
}
Tensor pixels(const Tensor& t) { return t.reshape({t.numel() / t.dim(-1), t.dim(-1)}); }
Tensor matrix(const Tensor& w) { return w.reshape({w.dim(0), w.dim(1)}); }

void forward_cuda(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p, Activation act,
                  Tensor& y) {
  if (!ours(x, y, w)) return conv2d_forward.generic(x, w, bias, p, act, y);
  if (is_product(w.shape(), p)) {
    Tensor out = pixels(y);
    return linear_forward(pixels(x), matrix(w), bias, act, out);
  }
  if (cuda::is_depthwise(w.shape(), p)) return cuda::depthwise_forward(x, w, bias, p, act, y);
  conv2d_forward.generic(x, w, bias, p, act, y);
}

void backward_data_cuda(const Tensor& dy, const Tensor& w, const ConvParams& p, Tensor& dx) {
  if (!ours(dy, dx, w)) return conv2d_backward_data.generic(dy, w, p, dx);
  if (is_product(w.shape(), p)) {
    Tensor out = pixels(dx);
    return linear_backward_data(pixels(dy), matrix(w), out);
  }
  if (cuda::is_depthwise(w.shape(), p)) return cuda::depthwise_backward_data(dy, w, p, dx);
  conv2d_backward_data.generic(dy, w, p, dx);
}

void backward_weight_cuda(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw) {
  if (!ours(dy, x, dw)) return conv2d_backward_weight.generic(dy, x, p, dw);
  if (is_product(dw.shape(), p)) {
    Tensor out = matrix(dw);
    return linear_backward_weight(pixels(dy), pixels(x), out);
  }
  if (cuda::is_depthwise(dw.shape(), p)) return cuda::depthwise_backward_weight(dy, x, p, dw);
  conv2d_backward_weight.generic(dy, x, p, dw);
}

SACCADE_REGISTER_TUNED_KERNEL(conv2d_forward, Device::kCuda, &forward_cuda);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_data, Device::kCuda, &backward_data_cuda);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_weight, Device::kCuda, &backward_weight_cuda);

}  // namespace
}  // namespace saccade::kernels
