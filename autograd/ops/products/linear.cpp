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
  ProductDtype dtype = ProductDtype::kCompute;
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
    const bool wide = dtype == ProductDtype::kSums;
    Tensor y = Tensor::empty({x.dim(0), n}, wide && n > 0 && stays_wide(x) ? sum_dtype(x.dtype()) : x.dtype(),
                             x.device());
    Tensor saved = detail::activated_product(
        ctx, act, y, [&](Activation fused, Tensor& to) { kernels::linear_forward(x, w, bias, fused, to); });
    ctx.save(ctx.needs(1) ? x : Tensor(), ctx.needs(0) ? w : Tensor(), saved);
    return (wide ? y.to(sum_dtype(x.dtype())) : y).reshape(shape);
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &x = ctx.saved(0), &w = ctx.saved(1), &saved = ctx.saved(2);
    const DType type = x.defined() ? x.dtype() : w.defined() ? w.dtype() : dy.dtype();  // of the products
    const bool ours_alone = dy.unique();  // then it may be changed
    int64_t n = dy.dim(-1), rows = n == 0 ? 0 : dy.numel() / n;
    Tensor dx, dw, db;
    if (ctx.needs(2)) db = ctx.new_gradient(2, {n}, sum_dtype(type), dy.device());
    const Tensor g = stays_wide(dy) ? dy : dy.to(type);
    Tensor dz = detail::product_gradient(act, g.contiguous().reshape({rows, n}), saved, type, ours_alone, db);
    if (ctx.needs(0)) {
      dx = Tensor::empty({rows, w.dim(1)}, type, dy.device());
      kernels::linear_backward_data(dz, w, dx);
      Shape shape = dy.shape();
      shape[-1] = w.dim(1);
      dx = dx.reshape(shape);
    }
    if (ctx.needs(1)) {
      dw = ctx.new_gradient(1, {n, x.dim(1)}, sum_dtype(type), dy.device());
      kernels::linear_backward_weight(dz, x, dw);
    }
    return {dx, dw, db};
  }

 private:
  // A GPU's products and sums can mix f32 and bf16 operands; the CPU rounds first, as its products do.
  static bool stays_wide(const Tensor& t) { return t.device() == Device::kCuda && t.numel() > 0; }
};

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, Activation activation, ProductDtype dtype) {
  SACCADE_CHECK(weight.rank() == 2, "[linear] weight, got shape {}, expected [N, K]", weight.shape());
  SACCADE_CHECK(x.rank() >= 1 && x.dim(-1) == weight.dim(1),
                "[linear] x, got shape {}, expected [..., {}] for weight {}", x.shape(), weight.dim(1),
                weight.shape());
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
                "[linear] bias, got shape {}, expected [{}]", bias.shape(), weight.dim(0));
  return run_op(Linear{activation, dtype}, {x, weight, bias});
}

}  // namespace saccade
