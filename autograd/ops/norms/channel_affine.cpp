#include "core/kernels/channel_affine/channel_affine.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"

namespace saccade {
namespace {

struct ChannelAffine {
  static constexpr const char* kName = "channel_affine";
  static constexpr std::array kCasts{Cast::kSame};
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
    // The result is kept where it does, not x: the op after this one keeps it anyway.
    ctx.save(!ctx.needs(0) || act == Activation::kNone ? Tensor() : kernels::saves_slope(act) ? x : y);
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor rows = detail::as_rows(dy), dx = rows.empty_like();
    kernels::channel_affine_backward(rows, ctx.saved(0), scale, shift, act, dx);
    return {dx.reshape(dy.shape())};
  }
};

}  // namespace

Var channel_affine(const Var& x, const Tensor& scale, const Tensor& shift, Activation activation) {
  SACCADE_CHECK(x.rank() >= 1, "[channel_affine] x, got a scalar, expected [..., C]");
  detail::check_channels("channel_affine", "scale", scale.shape(), x.shape());
  detail::check_channels("channel_affine", "shift", shift.shape(), x.shape());
  return run_op(ChannelAffine{scale.to(x.device()), shift.to(x.device()), activation}, {x});
}

}  // namespace saccade
