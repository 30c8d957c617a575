#include "core/kernels/channel_affine/channel_affine.h"

#include "autograd/ops.h"
#include "autograd/ops/norms/norm_inputs.h"

namespace saccade {
namespace {

struct ChannelAffine {
  static constexpr const char* kName = "channel_affine";
  static constexpr Policy kPolicy = Policy::kSame;
  Tensor scale, shift;
  Activation act;

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = detail::as_rows(in[0]);
    scale = detail::as_statistic(scale, x);
    Tensor y = x.empty_like();
    kernels::channel_affine_forward(x, scale, detail::as_statistic(shift, x), act, y);
    shift = Tensor();
    // The result is kept, not x: the op after this one keeps it anyway.
    ctx.save(ctx.needs(0) && act == Activation::kRelu ? y : Tensor());
    return y.reshape(in[0].shape());
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor rows = detail::as_rows(dy), dx = rows.empty_like();
    kernels::channel_affine_backward(rows, ctx.saved(0), scale, act, dx);
    return {dx.reshape(dy.shape())};
  }
};

}  // namespace

Var channel_affine(const Var& x, const Tensor& scale, const Tensor& shift, Activation activation) {
  SACCADE_CHECK(x.rank() >= 1, "[channel_affine] x, got a scalar, expected [..., C]");
  detail::check_channels("channel_affine", "scale", scale.shape(), x.shape());
  detail::check_channels("channel_affine", "shift", shift.shape(), x.shape());
  SACCADE_CHECK(activation != Activation::kGelu,
                "[channel_affine] activation, got gelu, expected none or relu");
  return run_op(ChannelAffine{scale.to(x.device()), shift.to(x.device()), activation}, {x});
}

}  // namespace saccade
