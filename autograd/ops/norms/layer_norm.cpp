#include "core/kernels/layer_norm/layer_norm.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"

namespace saccade {
namespace {

struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  static constexpr std::array kCasts{Cast::kWidest, Cast::kF32, Cast::kF32, Cast::kWidest};
  static constexpr auto macs = no_macs;
  double eps;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = detail::as_rows(in[0]), weight = in[1].contiguous(), residual, sum;
    if (in[3].defined()) {
      residual = detail::as_rows(in[3]);
      sum = x.empty_like();
    }
    Tensor y = x.empty_like(), mean = detail::empty_statistic({x.dim(0)}, x), rstd = mean.empty_like();
    kernels::layer_norm_forward(x, residual, weight, in[2].contiguous(), eps, y, sum, mean, rstd);
    ctx.save(sum.defined() ? sum : x, weight, mean, rstd);
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &x = ctx.saved(0), &weight = ctx.saved(1);
    Tensor dx = ctx.needs(0) || ctx.needs(3) ? x.empty_like() : Tensor();
    Tensor dweight = ctx.needs(1) ? weight.empty_like() : Tensor();
    Tensor dbias = ctx.needs(2) ? weight.empty_like() : Tensor();
    kernels::layer_norm_backward(detail::as_rows(dy), x, weight, ctx.saved(2), ctx.saved(3), dx, dweight,
                                 dbias);
    if (dx.defined()) dx = dx.reshape(dy.shape());
    return {ctx.needs(0) ? dx : Tensor(), dweight, dbias, ctx.needs(3) ? dx : Tensor()};
  }
};

}  // namespace

Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps, const Var& residual) {
  SACCADE_CHECK(x.rank() >= 1, "[layer_norm] x, got a scalar, expected [..., C]");
  detail::check_channels("layer_norm", "weight", weight.shape(), x.shape());
  detail::check_channels("layer_norm", "bias", bias.shape(), x.shape());
  SACCADE_CHECK(!residual.defined() || residual.shape() == x.shape(),
                "[layer_norm] residual, got shape {}, expected {}", residual.shape().to_string(),
                x.shape().to_string());
  return run_op(LayerNorm{eps}, {x, weight, bias, residual});
}

}  // namespace saccade
