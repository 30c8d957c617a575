#include "core/kernels/linear/linear.h"

#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/products/epilogue.h"

namespace saccade {
namespace {

struct Linear {
  static constexpr const char* kName = "linear";
  static constexpr std::array kCasts{Cast::kCompute, Cast::kCompute, Cast::kF32};
  Activation act;
  void describe(OpAttributes& to) const { to.add("activation", static_cast<int64_t>(act)); }

  static int64_t macs(const Tensors& in, const Tensor& out) { return out.numel() * in[1].dim(1); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    int64_t n = in[1].dim(0), k = in[1].dim(1);
    Shape shape = in[0].shape();
    shape[-1] = n;
    Tensor w = in[1].contiguous();
    Tensor bias = in[2].defined() ? in[2].contiguous() : Tensor();
    Tensor x =
        in[0].contiguous().reshape({k == 0 ? shape.numel() / std::max<int64_t>(n, 1) : in[0].numel() / k, k});
    Tensor y = Tensor::empty({x.dim(0), n}, x.dtype(), x.device());
    Tensor saved = detail::activated_product(
        ctx, act, y, [&](Activation fused, Tensor& to) { kernels::linear_forward(x, w, bias, fused, to); });
    ctx.save(ctx.needs(1) ? x : Tensor());
    ctx.save(ctx.needs(0) ? w : Tensor());
    ctx.save(saved);
    return y.reshape(shape);
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &x = ctx.saved(0), &w = ctx.saved(1), &saved = ctx.saved(2);
    DType type = dy.dtype();
    const bool ours_alone = dy.unique();  // then it may be changed
    int64_t n = dy.dim(-1), rows = n == 0 ? 0 : dy.numel() / n;
    Tensor dx, dw, db;
    if (ctx.needs(2)) db = Tensor::empty({n}, sum_dtype(type), dy.device());
    Tensor dz = detail::product_gradient(act, dy.contiguous().reshape({rows, n}), saved, ours_alone, db);
    if (ctx.needs(0)) {
      dx = Tensor::empty({rows, w.dim(1)}, type, dy.device());
      kernels::linear_backward_data(dz, w, dx);
      Shape shape = dy.shape();
      shape[-1] = w.dim(1);
      dx = dx.reshape(shape);
    }
    if (ctx.needs(1)) {
      dw = Tensor::empty({n, x.dim(1)}, sum_dtype(type), dy.device());
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
