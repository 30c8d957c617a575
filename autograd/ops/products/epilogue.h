// The epilogue of linear and conv2d: the activation and the bias gradient.
#pragma once

#include "autograd/function.h"
#include "core/kernels/activation/activation.h"

namespace saccade::detail {

// y = act(product). product(act, y) writes it with an activation that libraries fuse, or without one. Returns
// what backward needs of it.
template <class Product>
Tensor activated_product(const Context& ctx, Activation act, Tensor& y, const Product& product) {
  if (kernels::fuses_into_products(act)) {
    product(act, y);
    return act != Activation::kNone && ctx.needs_any() ? y : Tensor();
  }
  // The same computation with and without gradients, so that recomputed values have the same bits.
  const bool slope = kernels::saves_slope(act) && ctx.needs_any();
  Tensor none, z = slope ? y.empty_like() : y;
  product(Activation::kNone, z);
  kernels::activation_forward(act, z, y, slope ? z : none);  // z becomes the slope
  return slope ? z : ctx.needs_any() ? y : Tensor();
}

// Returns dz, of `dtype`, from dy [R, N] and computes the bias gradient unless it is undefined; `saved` is as
// above. dy, of `dtype` or wider, is overwritten if in_place.
inline Tensor product_gradient(Activation act, const Tensor& dy, const Tensor& saved, DType dtype,
                               bool in_place, Tensor& bias_grad) {
  const bool same = dy.dtype() == dtype;
  Tensor dz;
  if (act != Activation::kNone || !same)
    dz = same && in_place ? dy : Tensor::empty(dy.shape(), dtype, dy.device());
  if (dz.defined() || bias_grad.defined()) kernels::activation_backward(act, dy, saved, dz, bias_grad);
  return dz.defined() ? dz : dy;
}

}  // namespace saccade::detail
