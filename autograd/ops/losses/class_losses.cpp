#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

using kernels::ClassDecision;
constexpr const char* kDecisionNames[] = {"sigmoid_focal_loss", "varifocal_loss", "matchability_loss",
                                          "iou_aware_loss"};

// Of logits [..., K].
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
    Tensor q = quality.defined() ? quality.to(x.dtype()) : quality;
    return run_loss(ctx, x, parts, x.numel(), kernels::kLossElements, [&](Tensor& partial, Tensor& grad) {
      kernels::decision_loss(x, labels, q, {kDecision, alpha, gamma}, partial, grad);
    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, shape)};
  }
};

template <ClassDecision kDecision>
Var decision_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                  LossParts parts) {
  using Op = DecisionLoss<kDecision>;
  const Device device = logits.device();
  Tensor rows = checked_labels(Op::kName, labels, logits.shape(), -1, logits.dim(-1)), flat;
  if constexpr (kDecision != ClassDecision::kFocal) {
    SACCADE_CHECK(is_float(quality.dtype()) && quality.shape() == labels.shape(),
                  "[{}] quality, got {} {}, expected floating {}", Op::kName, quality.dtype(),
                  quality.shape(), labels.shape());
    flat = quality.contiguous().reshape({rows.numel()}).to(device);
  }
  return run_op(Op{rows.to(device), flat, alpha, gamma, parts}, {logits});
}

}  // namespace

Var sigmoid_focal_loss(const Var& logits, const Tensor& labels, double alpha, double gamma, LossParts parts) {
  return decision_loss<ClassDecision::kFocal>(logits, labels, {}, alpha, gamma, parts);
}
Var varifocal_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                   LossParts parts) {
  return decision_loss<ClassDecision::kVarifocal>(logits, labels, quality, alpha, gamma, parts);
}
Var matchability_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double gamma,
                      LossParts parts) {
  return decision_loss<ClassDecision::kMatchability>(logits, labels, quality, 1, gamma, parts);
}
Var iou_aware_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                   LossParts parts) {
  return decision_loss<ClassDecision::kIouAware>(logits, labels, quality, alpha, gamma, parts);
}

}  // namespace saccade
