#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

template <bool kGiou>
struct BoxLoss {
  static constexpr const char* kName = kGiou ? "giou_loss" : "l1_loss";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor targets;
  LossParts parts;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous(), t = targets.to(x.dtype()).contiguous();
    int64_t n = kGiou ? x.dim(0) : x.numel(), piece = kGiou ? kernels::kLossPairs : kernels::kLossElements;
    return run_loss(ctx, x, parts, n, piece, [&](Tensor& partial, Tensor& grad) {
      kGiou ? kernels::giou_loss(x, t, partial, grad) : kernels::l1_loss(x, t, partial, grad);
    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, ctx.saved(0).shape())};
  }
};

template <bool kGiou>
Var box_loss(const Var& boxes, const Tensor& targets, LossParts parts) {
  constexpr const char* op = BoxLoss<kGiou>::kName;
  SACCADE_CHECK(boxes.rank() == 2 && boxes.dim(1) == 4, "[{}] boxes, got {}, expected [K, 4]", op,
                boxes.shape());
  SACCADE_CHECK(is_float(targets.dtype()) && targets.shape() == boxes.shape(),
                "[{}] targets, got {} {}, expected floating {}", op, targets.dtype(), targets.shape(),
                boxes.shape());
  return run_op(BoxLoss<kGiou>{targets.to(boxes.device()), parts}, {boxes});
}

}  // namespace

Var giou_loss(const Var& boxes, const Tensor& targets, LossParts parts) {
  return box_loss<true>(boxes, targets, parts);
}
Var l1_loss(const Var& boxes, const Tensor& targets, LossParts parts) {
  return box_loss<false>(boxes, targets, parts);
}

}  // namespace saccade
