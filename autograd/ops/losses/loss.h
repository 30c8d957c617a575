// Shared by the loss ops. Their kernels give the gradient together with the loss, so forward saves the
// gradient alone and backward scales it.
#pragma once

#include "autograd/function.h"
#include "core/kernels/elementwise/elementwise.h"
#include "core/kernels/losses/losses.h"
#include "core/kernels/reduce/reduce.h"

namespace saccade {

// Runs `kernel(partial, grad)` and returns the sum of the pieces as a scalar of x's dtype.
template <class F>
Tensor run_loss(Context& ctx, const Tensor& x, int64_t pieces, F&& kernel) {
  Tensor partial = Tensor::empty({pieces}, DType::kF64, x.device());
  Tensor grad = ctx.needs(0) ? x.empty_like() : Tensor();
  kernel(partial, grad);
  ctx.save(grad);
  Tensor total = Tensor::empty({}, DType::kF64, x.device());
  kernels::sum_to_shape(partial, 1, total);
  return total.to(x.dtype());
}

inline Tensor scale_saved_gradient(const Context& ctx, const Tensor& dy, const Shape& shape) {
  const Tensor& grad = ctx.saved(0);
  Tensor dx = grad.empty_like();
  kernels::binary(kernels::BinaryOp::kMul, grad, dy.to(grad.dtype()), dx);
  return dx.reshape(shape);
}

// Labels as i64 [R] for logits [..., K]. On the CPU each must lie in [low, high].
inline Tensor checked_labels(const char* op, const Tensor& labels, const Shape& logits, int64_t low,
                             int64_t high) {
  SACCADE_CHECK(logits.rank() >= 1 && logits[-1] >= 1, "[{}] logits, got {}, expected [..., K]", op,
                logits.to_string());
  Shape rows(std::span<const int64_t>(logits.begin(), static_cast<size_t>(logits.rank() - 1)));
  SACCADE_CHECK(labels.defined() && labels.dtype() == DType::kI64 && labels.shape() == rows,
                "[{}] labels, got {} {}, expected i64 {}", op, name_of(labels.dtype()),
                labels.shape().to_string(), rows.to_string());
  Tensor flat = labels.contiguous().reshape({rows.numel()});
  if (flat.device() == Device::kCpu) {
    const int64_t* p = flat.data<int64_t>();
    for (int64_t i = 0; i < flat.numel(); ++i)
      SACCADE_CHECK(p[i] >= low && p[i] <= high, "[{}] label {}, got {}, expected {} to {}", op, i, p[i], low,
                    high);
  }
  return flat;
}

}  // namespace saccade
