#include "core/kernels/batch_norm/batch_norm.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"

namespace saccade {
namespace {

struct BatchNorm {
  static constexpr const char* kName = "batch_norm";
  static constexpr std::array kCasts{Cast::kWidest, Cast::kF32};
  static constexpr auto macs = no_macs;
  kernels::BatchNormParams p;
  Tensor running_mean, running_var;
  void describe(OpAttributes& to) const {
    to.add("mean", running_mean).add("variance", running_var).add("eps", p.eps);
    to.add("training", int64_t{p.training}).add("activation", static_cast<int64_t>(p.act));
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = detail::as_rows(in[0]);
    Tensor weight = in[1].contiguous(), bias = in[2].contiguous();
    Tensor moving_mean = detail::as_statistic(running_mean, x),
           moving_var = detail::as_statistic(running_var, x);
    Tensor y = x.empty_like(), mean = detail::empty_statistic({x.dim(1)}, x), rstd = mean.empty_like();
    kernels::batch_norm_forward(x, weight, bias, p, moving_mean, moving_var, y, mean, rstd);
    if (p.training) {
      store(moving_mean, running_mean);
      store(moving_var, running_var);
    }
    running_mean = running_var = Tensor();
    ctx.save(x, weight, bias, mean, rstd);
    return y.reshape(in[0].shape());
  }

  static void store(const Tensor& from, Tensor& to) {
    if (from.storage() == to.storage())
      to.bump_version();
    else
      to.copy_from(from);
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor& x = ctx.saved(0);
    const Tensor& mean = ctx.saved(3);
    Tensor dx = ctx.needs(0) ? x.empty_like() : Tensor();
    Tensor dweight = ctx.needs(1) ? mean.empty_like() : Tensor();
    Tensor dbias = ctx.needs(2) ? mean.empty_like() : Tensor();
    kernels::batch_norm_backward(detail::as_rows(dy), x, ctx.saved(1), ctx.saved(2), mean, ctx.saved(4), p,
                                 dx, dweight, dbias);
    return {dx.defined() ? dx.reshape(dy.shape()) : dx, dweight, dbias};
  }
};

}  // namespace

Var batch_norm(const Var& x, const Var& weight, const Var& bias, Tensor& running_mean, Tensor& running_var,
               bool training, double momentum, double eps, Activation activation) {
  SACCADE_CHECK(x.rank() >= 1, "[batch_norm] x, got a scalar, expected [..., C]");
  detail::check_channels("batch_norm", "weight", weight.shape(), x.shape());
  detail::check_channels("batch_norm", "bias", bias.shape(), x.shape());
  detail::check_channels("batch_norm", "running_mean", running_mean.shape(), x.shape());
  detail::check_channels("batch_norm", "running_var", running_var.shape(), x.shape());
  kernels::BatchNormParams p{training, activation, momentum, eps};
  return run_op(BatchNorm{p, running_mean, running_var}, {x, weight, bias});
}

}  // namespace saccade
