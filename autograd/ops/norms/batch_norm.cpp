#include "core/kernels/batch_norm/batch_norm.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"
#include "core/distributed/process_group.h"

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
  ProcessGroup* group = nullptr;  // if set, the statistics are those of all images of its processes
  Tensor rows = {};

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = detail::as_rows(in[0]);
    Tensor weight = in[1].contiguous(), bias = in[2].contiguous();
    Tensor moving_mean = detail::as_statistic(running_mean, x),
           moving_var = detail::as_statistic(running_var, x);
    Tensor y = x.empty_like(), mean = detail::empty_statistic({x.dim(1)}, x), rstd = mean.empty_like();
    if (p.training && !process_group().alone()) group = &process_group();
    if (group)
      forward_with_others(x, weight, bias, moving_mean, moving_var, y, mean, rstd);
    else
      kernels::batch_norm_forward(x, weight, bias, p, moving_mean, moving_var, y, mean, rstd);
    if (p.training) {
      store(moving_mean, running_mean);
      store(moving_var, running_var);
    }
    running_mean = running_var = Tensor();
    ctx.save(x, weight, bias, mean, rstd);
    return y.reshape(in[0].shape());
  }

  void forward_with_others(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& moving_mean,
                           Tensor& moving_var, Tensor& y, Tensor& mean, Tensor& rstd) {
    const int64_t C = x.dim(1);
    Tensor own = Tensor::empty({3, C}, DType::kF64, x.device());
    Tensor all = Tensor::empty({group->size(), 3, C}, DType::kF64, x.device());
    kernels::batch_norm_moments(x, own);
    group->gather(own, all);
    rows = Tensor::empty({C}, DType::kF64, x.device());
    Tensor mu = mean.empty_like(), variance = mean.empty_like();
    kernels::batch_norm_join(all, p.momentum, moving_mean, moving_var, mu, variance, rows);
    kernels::batch_norm_forward(x, weight, bias, fixed(), mu, variance, y, mean, rstd);
  }
  kernels::BatchNormParams fixed() const { return {false, p.act, p.momentum, p.eps}; }

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
    if (group) return backward_with_others(ctx, detail::as_rows(dy), dx, dy.shape());
    Tensor dweight = ctx.new_gradient(1, mean);
    Tensor dbias = ctx.new_gradient(2, mean);
    kernels::batch_norm_backward(detail::as_rows(dy), x, ctx.saved(1), ctx.saved(2), mean, ctx.saved(4), p,
                                 dx, dweight, dbias);
    return {dx.defined() ? dx.reshape(dy.shape()) : dx, dweight, dbias};
  }

  Gradients backward_with_others(const Context& ctx, const Tensor& dy, Tensor& dx, const Shape& shape) const {
    const Tensor &x = ctx.saved(0), &weight = ctx.saved(1), &bias = ctx.saved(2), &mean = ctx.saved(3),
                 &rstd = ctx.saved(4);
    const int64_t C = x.dim(1);
    Tensor own = Tensor::empty({2, C}, mean.dtype(), mean.device());
    Tensor dbias = own.slice(0, 0, 1).reshape({C}), dweight = own.slice(0, 1, 2).reshape({C});
    Tensor later;
    kernels::batch_norm_backward(dy, x, weight, bias, mean, rstd, fixed(), later, dweight, dbias);
    Tensor all = Tensor::empty({group->size(), 2, C}, mean.dtype(), mean.device());
    group->gather(own, all);
    if (dx.defined())
      kernels::batch_norm_backward_of_all(dy, x, weight, bias, mean, rstd, all, rows, p.act, dx);
    // These are this process's gradients; the optimizer adds up those of all processes.
    return {dx.defined() ? dx.reshape(shape) : dx, ctx.needs(1) ? dweight : Tensor(),
            ctx.needs(2) ? dbias : Tensor()};
  }
};

}  // namespace

Var batch_norm(const Var& x, const Var& weight, const Var& bias, Tensor& running_mean, Tensor& running_var,
               bool training, double momentum, double eps, Activation activation) {
  detail::check_channels("batch_norm", x,
                         {{"weight", weight.shape()},
                          {"bias", bias.shape()},
                          {"running_mean", running_mean.shape()},
                          {"running_var", running_var.shape()}});
  kernels::BatchNormParams p{training, activation, momentum, eps};
  return run_op(BatchNorm{p, running_mean, running_var}, {x, weight, bias});
}

}  // namespace saccade
