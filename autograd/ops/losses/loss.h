// Shared by the loss ops. Their kernels compute the gradient together with the loss, so forward saves only
// the gradient, which backward scales.
#pragma once

#include "autograd/function.h"
#include "autograd/ops.h"
#include "core/kernels/elementwise/elementwise.h"
#include "core/kernels/losses/losses.h"
#include "core/kernels/reduce/reduce.h"

namespace saccade {

// Runs `kernel(partial, grad)` for losses of n rows, pairs or elements, in pieces of `piece`, and returns
// their sum in x's dtype: a scalar, or [parts] with parts.
template <class F>
Tensor run_loss(Context& ctx, const Tensor& x, LossParts parts, int64_t n, int64_t piece, F&& kernel) {
  const int64_t count = parts.count;
  SACCADE_CHECK(count >= 1 && n % count == 0, "[loss] {} rows do not split into {} parts", n, count);
  Tensor partial = Tensor::empty({count, kernels::loss_pieces(n / count, piece)}, DType::kF64, x.device());
  Tensor grad = ctx.needs(0) ? x.empty_like() : Tensor();
  kernel(partial, grad);
  ctx.save(grad);
  Tensor total = Tensor::empty({count, 1}, DType::kF64, x.device());
  kernels::sum_to_shape(partial, 1, total);
  return total.to(x.dtype()).reshape(parts.is_scalar ? Shape{} : Shape{count});
}

// dy: one number per part.
inline Tensor scale_saved_gradient(const Context& ctx, const Tensor& dy, const Shape& shape) {
  const Tensor& grad = ctx.saved(0);
  const int64_t parts = dy.numel();
  Tensor rows = grad.reshape({parts, grad.numel() / parts}), dx = rows.empty_like();
  kernels::binary(kernels::BinaryOp::kMul, rows, dy.to(grad.dtype()).reshape({parts, 1}), dx);
  return dx.reshape(shape);
}

// Returns labels as i64 [R] for logits [..., K]. On the CPU, checks that each is in [low, high].
inline Tensor checked_labels(const char* op, const Tensor& labels, const Shape& logits, int64_t low,
                             int64_t high) {
  SACCADE_CHECK(logits.rank() >= 1 && logits[-1] >= 1, "[{}] logits, got {}, expected [..., K]", op, logits);
  Shape rows(std::span<const int64_t>(logits.begin(), static_cast<size_t>(logits.rank() - 1)));
  SACCADE_CHECK(labels.defined() && labels.dtype() == DType::kI64 && labels.shape() == rows,
                "[{}] labels, got {} {}, expected i64 {}", op, labels.dtype(), labels.shape(), rows);
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
