#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

using kernels::ClassDecision;
constexpr const char* kDecisionNames[] = {"sigmoid_focal_loss", "varifocal_loss", "matchability_loss",
                                          "iou_aware_loss"};

// For logits [..., K].
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

struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor labels, weights;  // [R], [K] or undefined
  double smoothing;
  LossParts parts;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous();
    Tensor w = weights.defined() ? weights.to(x.dtype()).contiguous() : weights;
    return run_loss(ctx, x, parts, x.dim(0), kernels::kLossRows, [&](Tensor& partial, Tensor& grad) {
      kernels::cross_entropy_loss(x, labels, w, smoothing, partial, grad);
    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, ctx.saved(0).shape())};
  }
};

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

Var cross_entropy(const Var& logits, const Tensor& labels, const Tensor& class_weights,
                  double label_smoothing, LossParts parts) {
  SACCADE_CHECK(logits.rank() == 2, "[cross_entropy] logits, got {}, expected [R, K]", logits.shape());
  int64_t classes = logits.dim(1);
  Tensor rows = checked_labels(CrossEntropy::kName, labels, logits.shape(), -1, classes - 1);
  SACCADE_CHECK(!class_weights.defined() ||
                    (is_float(class_weights.dtype()) && class_weights.shape() == Shape({classes})),
                "[cross_entropy] class weights, got {} {}, expected floating [{}]", class_weights.dtype(),
                class_weights.shape(), classes);
  SACCADE_CHECK(label_smoothing >= 0 && label_smoothing <= 1,
                "[cross_entropy] label smoothing, got {}, expected 0 to 1", label_smoothing);
  Device device = logits.device();
  Tensor weights = class_weights.defined() ? class_weights.to(device) : class_weights;
  return run_op(CrossEntropy{rows.to(device), weights, label_smoothing, parts}, {logits});
}

}  // namespace saccade
