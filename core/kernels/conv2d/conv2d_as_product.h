// 1x1 convolutions of stride 1 as matrix products over the pixels.
#pragma once

#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/linear/linear.h"

namespace saccade::kernels {

inline bool is_strided_product(const Shape& w, const ConvParams& p) {
  return w[2] == 1 && w[3] == 1 && p.padding == 0 && p.groups == 1;
}
inline bool is_product(const Shape& w, const ConvParams& p) {
  return is_strided_product(w, p) && p.stride == 1;
}
inline Tensor pixels(const Tensor& t) { return t.reshape({t.numel() / t.dim(-1), t.dim(-1)}); }
inline Tensor matrix(const Tensor& w) { return w.reshape({w.dim(0), w.dim(1)}); }

inline void forward_as_product(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act,
                               Tensor& y) {
  Tensor out = pixels(y);
  linear_forward(pixels(x), matrix(w), bias, act, out);
}
inline void backward_data_as_product(const Tensor& dy, const Tensor& w, Tensor& dx) {
  Tensor out = pixels(dx);
  linear_backward_data(pixels(dy), matrix(w), out);
}
inline void backward_weight_as_product(const Tensor& dy, const Tensor& x, Tensor& dw) {
  Tensor out = matrix(dw);
  linear_backward_weight(pixels(dy), pixels(x), out);
}

}  // namespace saccade::kernels
