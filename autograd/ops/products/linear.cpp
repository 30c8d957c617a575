#include "core/kernels/linear/linear.h"

#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/compute_cast.h"
#include "core/kernels/activation/activation.h"

namespace saccade {
namespace {

struct Linear {
  static constexpr const char* kName = "linear";
  static constexpr Policy kPolicy = Policy::kSame;  // casts itself: the bias stays wide
  Activation act;

  Tensor forward(Context& ctx, const Tensors& in) const {
    DType type = detail::compute_dtype(in);
    int64_t n = in[1].dim(0), k = in[1].dim(1);
    Shape shape = in[0].shape();
    shape[-1] = n;
    Tensor w = detail::to_compute(in[1], type).contiguous();
    Tensor bias = in[2].defined() ? in[2].to(detail::sum_dtype(type)).contiguous() : Tensor();
    Tensor x = in[0].to(type).contiguous().reshape(
        {k == 0 ? shape.numel() / std::max<int64_t>(n, 1) : in[0].numel() / k, k});
    Tensor y = Tensor::empty({x.dim(0), n}, type, x.device()), z;
    if (act == Activation::kGelu) {
      // The same function with and without gradients, so that recomputed values have the same bits.
      Tensor none;
      z = ctx.needs_any() ? y.empty_like() : y;
      kernels::linear_forward(x, w, bias, Activation::kNone, z);
      kernels::activation_forward(act, z, y, ctx.needs_any() ? z : none);  // z becomes the slope
    } else {
      kernels::linear_forward(x, w, bias, act, y);
    }
    ctx.save(ctx.needs(1) ? x : Tensor());
    ctx.save(ctx.needs(0) ? w : Tensor());
    ctx.save(act == Activation::kGelu ? z : act == Activation::kRelu && ctx.needs_any() ? y : Tensor());
    return y.reshape(shape);
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &x = ctx.saved(0), &w = ctx.saved(1), &saved = ctx.saved(2);
    DType type = dy.dtype();
    const bool ours_alone = dy.unique();  // then it may be changed
    int64_t n = dy.dim(-1), rows = n == 0 ? 0 : dy.numel() / n;
    Tensor dz = dy.contiguous().reshape({rows, n}), dx, dw, db;
    if (ctx.needs(2)) db = Tensor::empty({n}, detail::sum_dtype(type), dy.device());
    if (act != Activation::kNone) {
      Tensor masked = ours_alone ? dz : dz.empty_like();
      kernels::activation_backward(act, dz, saved, masked, db);
      dz = masked;
    } else if (db.defined()) {
      Tensor none;
      kernels::activation_backward(act, dz, none, none, db);
    }
    if (ctx.needs(0)) {
      dx = Tensor::empty({rows, w.dim(1)}, type, dy.device());
      kernels::linear_backward_data(dz, w, dx);
      Shape shape = dy.shape();
      shape[-1] = w.dim(1);
      dx = dx.reshape(shape);
    }
    if (ctx.needs(1)) {
      dw = Tensor::empty({n, x.dim(1)}, detail::sum_dtype(type), dy.device());
      kernels::linear_backward_weight(dz, x, dw);
    }
    return {dx, dw, db};
  }
};

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, Activation activation) {
  SACCADE_CHECK(weight.rank() == 2, "[linear] weight, got shape {}, expected [N, K]",
                weight.shape().to_string());
  SACCADE_CHECK(x.rank() >= 1 && x.dim(-1) == weight.dim(1),
                "[linear] x, got shape {}, expected [..., {}] for weight {}", x.shape().to_string(),
                weight.dim(1), weight.shape().to_string());
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
                "[linear] bias, got shape {}, expected [{}]", bias.shape().to_string(), weight.dim(0));
  return run_op(Linear{activation}, {x, weight, bias});
}

}  // namespace saccade
