#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

struct L1Loss {
  static constexpr const char* kName = "l1_loss";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor targets;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous(), t = targets.to(x.dtype()).contiguous();
    return run_loss(ctx, x, kernels::loss_pieces(x.numel(), kernels::kLossElements),
                    [&](Tensor& partial, Tensor& grad) { kernels::l1_loss(x, t, partial, grad); });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, ctx.saved(0).shape())};
  }
};

}  // namespace

Var l1_loss(const Var& boxes, const Tensor& targets) {
  check_boxes(L1Loss::kName, boxes, targets);
  return run_op(L1Loss{targets.to(boxes.device())}, {boxes});
}

}  // namespace saccade
