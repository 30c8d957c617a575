// Softmax and log-softmax over the last axis.
#include "core/kernels/softmax/softmax.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

template <bool kLog>
struct Softmax {
  static constexpr const char* kName = kLog ? "log_softmax" : "softmax";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(in[0].rank() >= 1, "[{}] input is a scalar, expected at least one axis", kName);
    Tensor x = in[0].contiguous(), y = x.empty_like();
    if constexpr (kLog) {
      kernels::log_softmax(x, y);
    } else {
      kernels::softmax(x, y);
    }
    ctx.save(y);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = dy.empty_like();
    if constexpr (kLog) {
      kernels::log_softmax_backward(ctx.saved(0), dy.contiguous(), dx);
    } else {
      kernels::softmax_backward(ctx.saved(0), dy.contiguous(), dx);
    }
    return {dx};
  }
};

}  // namespace

Var softmax(const Var& x) { return run_op(Softmax<false>{}, {x}); }
Var log_softmax(const Var& x) { return run_op(Softmax<true>{}, {x}); }

}  // namespace saccade
