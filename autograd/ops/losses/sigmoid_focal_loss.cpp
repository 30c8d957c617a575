#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

struct SigmoidFocalLoss {
  static constexpr const char* kName = "sigmoid_focal_loss";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor labels;  // [R]
  double alpha, gamma;
  Shape shape{};

  Tensor forward(Context& ctx, const Tensors& in) {
    shape = in[0].shape();
    Tensor x = as_rows(in[0]);
    return run_loss(
        ctx, x, kernels::loss_pieces(x.numel(), kernels::kLossElements),
        [&](Tensor& partial, Tensor& grad) { kernels::focal_loss(x, labels, alpha, gamma, partial, grad); });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, shape)};
  }
};

}  // namespace

Var sigmoid_focal_loss(const Var& logits, const Tensor& labels, double alpha, double gamma) {
  Tensor rows = checked_labels(SigmoidFocalLoss::kName, labels, logits.shape(), -1, logits.dim(-1));
  return run_op(SigmoidFocalLoss{rows.to(logits.device()), alpha, gamma}, {logits});
}

}  // namespace saccade
