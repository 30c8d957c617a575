#include "core/kernels/group_norm/group_norm.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"

namespace saccade {
namespace {

// [N, ..., C] -> [N, S, C]
Tensor as_samples(const Tensor& t) {
  int64_t n = t.dim(0), c = t.dim(-1), s = 1;
  for (int i = 1; i + 1 < t.rank(); ++i) s *= t.dim(i);
  return t.contiguous().reshape({n, s, c});
}

struct GroupNorm {
  static constexpr const char* kName = "group_norm";
  static constexpr std::array kCasts{Cast::kWidest, Cast::kF32};
  static constexpr auto macs = no_macs;
  int64_t groups;
  double eps;
  void describe(OpAttributes& to) const { to.add("groups", groups).add("eps", eps); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = as_samples(in[0]), weight = in[1].contiguous();
    Tensor y = x.empty_like(), mean = detail::empty_statistic({x.dim(0), groups}, x),
           rstd = mean.empty_like();
    kernels::group_norm_forward(x, weight, in[2].contiguous(), eps, y, mean, rstd);
    ctx.save(x, weight, mean, rstd);
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &x = ctx.saved(0), &weight = ctx.saved(1);
    Tensor dx = ctx.needs(0) ? x.empty_like() : Tensor();
    Tensor dweight = ctx.new_gradient(1, weight);
    Tensor dbias = ctx.new_gradient(2, weight);
    kernels::group_norm_backward(as_samples(dy), x, weight, ctx.saved(2), ctx.saved(3), dx, dweight, dbias);
    return {dx.defined() ? dx.reshape(dy.shape()) : dx, dweight, dbias};
  }
};

}  // namespace

Var group_norm(const Var& x, const Var& weight, const Var& bias, int64_t groups, double eps) {
  SACCADE_CHECK(x.rank() >= 2, "[group_norm] x, got shape {}, expected [N, ..., C]", x.shape());
  detail::check_channels("group_norm", x, {{"weight", weight.shape()}, {"bias", bias.shape()}});
  SACCADE_CHECK(groups >= 1 && x.dim(-1) % groups == 0,
                "[group_norm] groups, got {}, expected a divisor of {} channels", groups, x.dim(-1));
  return run_op(GroupNorm{groups, eps}, {x, weight, bias});
}

}  // namespace saccade
