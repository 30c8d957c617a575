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
  void describe(OpAttributes& to) const { to.add("eps", eps); }

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
    Tensor dweight = ctx.new_gradient(1, weight);
    Tensor dbias = ctx.new_gradient(2, weight);
    kernels::layer_norm_backward(detail::as_rows(dy), x, weight, ctx.saved(2), ctx.saved(3), dx, dweight,
                                 dbias);
    if (dx.defined()) dx = dx.reshape(dy.shape());
    return {ctx.needs(0) ? dx : Tensor(), dweight, dbias, ctx.needs(3) ? dx : Tensor()};
  }
};

// The norm of residual + dropout(x).
struct DropoutNorm {
  static constexpr const char* kName = "dropout_norm";
  static constexpr std::array kCasts{Cast::kSame, Cast::kF32, Cast::kF32, Cast::kSame};
  static constexpr auto macs = no_macs;
  double eps, p;
  DType narrow{};
  kernels::RowDropout drop{};
  void describe(OpAttributes& to) const { to.add("eps", eps).add("p", p); }

  Tensor forward(Context& ctx, const Tensors& in) {
    const DType type = widest(in[0].dtype(), in[3].dtype());
    narrow = in[0].dtype();
    if (p > 0) {
      const Context::RandomStream stream = ctx.random_stream();
      drop = {p, stream.key, stream.call, static_cast<uint64_t>(stream.first_of(in[0].numel()) / 4 * 4)};
    }
    Tensor x = detail::as_rows(in[0]), residual = detail::as_rows(in[3].to(type)),
           weight = in[1].to(sum_dtype(type)).contiguous();
    Tensor sum = residual.empty_like(), y = residual.empty_like(),
           mean = detail::empty_statistic({y.dim(0)}, y), rstd = mean.empty_like();
    kernels::dropout_norm_forward(x, drop, residual, weight, in[2].to(sum_dtype(type)).contiguous(), eps, y,
                                  sum, mean, rstd);
    ctx.save(sum, weight, mean, rstd);
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &sum = ctx.saved(0), &weight = ctx.saved(1);
    Tensor dresidual = ctx.needs(0) || ctx.needs(3) ? sum.empty_like() : Tensor();
    // Without dropout and with equal dtypes, the two gradients are the same.
    const bool differ = p > 0 || narrow != sum.dtype();
    Tensor dx = ctx.needs(0) && differ ? Tensor::empty(sum.shape(), narrow, sum.device()) : Tensor();
    Tensor dweight = ctx.new_gradient(1, weight);
    Tensor dbias = ctx.new_gradient(2, weight);
    kernels::dropout_norm_backward(detail::as_rows(dy), sum, weight, ctx.saved(2), ctx.saved(3), drop,
                                   dresidual, dx, dweight, dbias);
    auto shaped = [&](const Tensor& t) { return t.reshape(dy.shape()); };
    return {ctx.needs(0) ? shaped(differ ? dx : dresidual) : Tensor(), dweight, dbias,
            ctx.needs(3) ? shaped(dresidual) : Tensor()};
  }
};

}  // namespace

Var dropout_norm(const Var& x, double p, bool training, const Var& residual, const Var& weight,
                 const Var& bias, double eps) {
  SACCADE_CHECK(p >= 0 && p <= 1, "[dropout_norm] probability {}, expected 0 <= p <= 1", p);
  detail::check_channels("dropout_norm", x, {{"weight", weight.shape()}, {"bias", bias.shape()}});
  SACCADE_CHECK(residual.shape() == x.shape(), "[dropout_norm] residual, got shape {}, expected {}",
                residual.shape(), x.shape());
  return run_op(DropoutNorm{eps, training ? p : 0}, {x, weight, bias, residual});
}

Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps, const Var& residual) {
  detail::check_channels("layer_norm", x, {{"weight", weight.shape()}, {"bias", bias.shape()}});
  SACCADE_CHECK(!residual.defined() || residual.shape() == x.shape(),
                "[layer_norm] residual, got shape {}, expected {}", residual.shape(), x.shape());
  return run_op(LayerNorm{eps}, {x, weight, bias, residual});
}

}  // namespace saccade
