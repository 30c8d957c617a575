#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

// The focal losses of logits [..., K], each of which is a decision of its own.
template <bool kVarifocal>
struct FocalLoss {
  static constexpr const char* kName = kVarifocal ? "varifocal_loss" : "sigmoid_focal_loss";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor labels, quality;  // [R]
  double alpha, gamma;
  Shape shape{};

  Tensor forward(Context& ctx, const Tensors& in) {
    shape = in[0].shape();
    Tensor x = in[0].contiguous().reshape({labels.numel(), shape[-1]});
    return run_loss(
        ctx, x, kernels::loss_pieces(x.numel(), kernels::kLossElements), [&](Tensor& partial, Tensor& grad) {
          if constexpr (kVarifocal) {
            kernels::varifocal_loss(x, labels, quality.to(x.dtype()), alpha, gamma, partial, grad);
          } else {
            kernels::focal_loss(x, labels, alpha, gamma, partial, grad);
          }
        });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, shape)};
  }
};

}  // namespace

Var sigmoid_focal_loss(const Var& logits, const Tensor& labels, double alpha, double gamma) {
  using Op = FocalLoss<false>;
  Tensor rows = checked_labels(Op::kName, labels, logits.shape(), -1, logits.dim(-1));
  return run_op(Op{rows.to(logits.device()), {}, alpha, gamma}, {logits});
}

Var varifocal_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha,
                   double gamma) {
  using Op = FocalLoss<true>;
  Tensor rows = checked_labels(Op::kName, labels, logits.shape(), -1, logits.dim(-1));
  SACCADE_CHECK(is_float(quality.dtype()) && quality.shape() == labels.shape(),
                "[varifocal_loss] quality, got {} {}, expected floating {}", name_of(quality.dtype()),
                quality.shape().to_string(), labels.shape().to_string());
  Device device = logits.device();
  Tensor flat = quality.contiguous().reshape({rows.numel()}).to(device);
  return run_op(Op{rows.to(device), flat, alpha, gamma}, {logits});
}

}  // namespace saccade
