#include "core/kernels/channel_affine/channel_affine.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"

namespace saccade {
namespace {

struct ChannelAffine {
  static constexpr const char* kName = "channel_affine";
  static constexpr auto macs = no_macs;
  Tensor scale, shift;
  Activation act;
  void describe(OpAttributes& to) const {
    to.add("scale", scale).add("shift", shift).add("activation", static_cast<int64_t>(act));
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = detail::as_rows(in[0]);
    scale = detail::as_statistic(scale, x);
    shift = detail::as_statistic(shift, x);
    Tensor y = x.empty_like();
    kernels::channel_affine_forward(x, scale, shift, act, y);
    // Saves the result instead of x where that suffices: the next op keeps the result anyway.
    ctx.save(!ctx.needs(0) || act == Activation::kNone ? Tensor() : kernels::saves_slope(act) ? x : y);
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor rows = detail::as_rows(dy), dx = rows.empty_like();
    kernels::channel_affine_backward(rows, ctx.saved(0), scale, shift, act, dx);
    return {dx.reshape(dy.shape())};
  }
};

struct AffineAddRelu {
  static constexpr const char* kName = "affine_add_relu";
  static constexpr std::array kCasts{Cast::kWidest};
  static constexpr auto macs = no_macs;
  Tensor scale, shift;
  void describe(OpAttributes& to) const { to.add("scale", scale).add("shift", shift); }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = detail::as_rows(in[0]);
    scale = detail::as_statistic(scale, x);
    shift = detail::as_statistic(shift, x);
    Tensor y = x.empty_like();
    kernels::affine_add_relu_forward(x, scale, shift, detail::as_rows(in[1]), y);
    ctx.save(y);
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor rows = detail::as_rows(dy);
    Tensor dx = ctx.needs(0) ? rows.empty_like() : Tensor(),
           dresidual = ctx.needs(1) ? rows.empty_like() : Tensor();
    kernels::affine_add_relu_backward(rows, ctx.saved(0), scale, dx, dresidual);
    auto shaped = [&](const Tensor& t) { return t.defined() ? t.reshape(dy.shape()) : t; };
    return {shaped(dx), shaped(dresidual)};
  }
};

}  // namespace

Var channel_affine(const Var& x, const Tensor& scale, const Tensor& shift, Activation activation) {
  detail::check_channels("channel_affine", x, {{"scale", scale.shape()}, {"shift", shift.shape()}});
  return run_op(ChannelAffine{scale.to(x.device()), shift.to(x.device()), activation}, {x});
}

Var affine_add_relu(const Var& x, const Tensor& scale, const Tensor& shift, const Var& residual) {
  detail::check_channels("affine_add_relu", x, {{"scale", scale.shape()}, {"shift", shift.shape()}});
  SACCADE_CHECK(residual.shape() == x.shape(), "[affine_add_relu] residual, got shape {}, expected {}",
                residual.shape(), x.shape());
  return run_op(AffineAddRelu{scale.to(x.device()), shift.to(x.device())}, {x, residual});
}

}  // namespace saccade
