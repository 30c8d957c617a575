#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

// The losses of logits [..., K], each of which is a decision of its own.
enum class ClassDecision { kFocal, kVarifocal, kMatchability, kIouAware };
constexpr const char* kDecisionNames[] = {"sigmoid_focal_loss", "varifocal_loss", "matchability_loss",
                                          "iou_aware_loss"};

template <ClassDecision kDecision>
struct DecisionLoss {
  static constexpr const char* kName = kDecisionNames[static_cast<int>(kDecision)];
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor labels, quality;  // [R]
  double alpha, gamma;
  LossParts parts;
  Shape shape{};

  Tensor forward(Context& ctx, const Tensors& in) {
    shape = in[0].shape();
    Tensor x = in[0].contiguous().reshape({labels.numel(), shape[-1]});
    auto q = [&] { return quality.to(x.dtype()); };
    return run_loss(ctx, x, parts, x.numel(), kernels::kLossElements, [&](Tensor& partial, Tensor& grad) {
      if constexpr (kDecision == ClassDecision::kFocal)
        kernels::focal_loss(x, labels, alpha, gamma, partial, grad);
      else if constexpr (kDecision == ClassDecision::kVarifocal)
        kernels::varifocal_loss(x, labels, q(), alpha, gamma, partial, grad);
      else if constexpr (kDecision == ClassDecision::kMatchability)
        kernels::matchability_loss(x, labels, q(), gamma, partial, grad);
      else
        kernels::iou_aware_loss(x, labels, q(), alpha, gamma, partial, grad);
    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, shape)};
  }
};

template <ClassDecision kDecision>
Var quality_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                 LossParts parts) {
  using Op = DecisionLoss<kDecision>;
  Tensor rows = checked_labels(Op::kName, labels, logits.shape(), -1, logits.dim(-1));
  SACCADE_CHECK(is_float(quality.dtype()) && quality.shape() == labels.shape(),
                "[{}] quality, got {} {}, expected floating {}", Op::kName, name_of(quality.dtype()),
                quality.shape().to_string(), labels.shape().to_string());
  Device device = logits.device();
  Tensor flat = quality.contiguous().reshape({rows.numel()}).to(device);
  return run_op(Op{rows.to(device), flat, alpha, gamma, parts}, {logits});
}

}  // namespace

Var sigmoid_focal_loss(const Var& logits, const Tensor& labels, double alpha, double gamma, LossParts parts) {
  using Op = DecisionLoss<ClassDecision::kFocal>;
  Tensor rows = checked_labels(Op::kName, labels, logits.shape(), -1, logits.dim(-1));
  return run_op(Op{rows.to(logits.device()), {}, alpha, gamma, parts}, {logits});
}

Var varifocal_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                   LossParts parts) {
  return quality_loss<ClassDecision::kVarifocal>(logits, labels, quality, alpha, gamma, parts);
}
Var matchability_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double gamma,
                      LossParts parts) {
  return quality_loss<ClassDecision::kMatchability>(logits, labels, quality, 1, gamma, parts);
}
Var iou_aware_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                   LossParts parts) {
  return quality_loss<ClassDecision::kIouAware>(logits, labels, quality, alpha, gamma, parts);
}

}  // namespace saccade
