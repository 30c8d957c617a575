// Losses based on sigmoids, which treat each class of each query separately.
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

using SigmoidSum = Var (*)(const Var& logits, const Tensor& labels, const MatchedQueries& matched,
                           const ClassLossOptions& options);

template <SigmoidSum kSum>
class SigmoidLoss : public ClassLoss {
 public:
  explicit SigmoidLoss(const ClassLossOptions& options) : options_(options) {}
  Var sum(const Var& logits, const MatchedQueries& matched) const override {
    return kSum(logits, label_queries(logits, matched, -1), matched, options_);
  }

 private:
  ClassLossOptions options_;
};

// The sigmoid focal loss (Lin et al. 2017).
Var focal_sum(const Var& logits, const Tensor& labels, const MatchedQueries&, const ClassLossOptions& o) {
  return sigmoid_focal_loss(logits, labels, o.focal_alpha, o.focal_gamma, layers_of(logits));
}

// The varifocal loss (Zhang et al. 2021): the target is the overlap of the matched boxes. alpha weights the
// background; as in RT-DETR, no gradient flows through the weights.
Var varifocal_sum(const Var& logits, const Tensor& labels, const MatchedQueries& matched,
                  const ClassLossOptions& o) {
  return varifocal_loss(logits, labels, matched_quality(logits, matched), o.focal_alpha, o.focal_gamma,
                        layers_of(logits));
}

// DEIM's matchability-aware loss (Huang et al. 2025): the target is a power of the overlap of the matched
// boxes. All matches have the same weight, so that it also learns from poor ones. DEIM's gamma is 1.5.
Var matchability_sum(const Var& logits, const Tensor& labels, const MatchedQueries& matched,
                     const ClassLossOptions& o) {
  return matchability_loss(logits, labels, matched_quality(logits, matched), o.focal_gamma,
                           layers_of(logits));
}

// The IoU-aware cross entropy (Cai et al. 2023, Align-DETR, as in LW-DETR): the target lies between the score
// and the overlap of the matched boxes; alpha is the score's exponent.
Var iou_aware_sum(const Var& logits, const Tensor& labels, const MatchedQueries& matched,
                  const ClassLossOptions& o) {
  return iou_aware_loss(logits, labels, matched_quality(logits, matched), o.focal_alpha, o.focal_gamma,
                        layers_of(logits));
}

// Uses the weights of RT-DETR and DEIM, while the focal cost of the matching keeps its alpha and gamma.
using FocalLoss = SigmoidLoss<focal_sum>;
using VarifocalLoss = SigmoidLoss<varifocal_sum>;
using MatchabilityLoss = SigmoidLoss<matchability_sum>;
using IouAwareLoss = SigmoidLoss<iou_aware_sum>;
SACCADE_REGISTER_CLASS_LOSS("focal", FocalLoss, "");
SACCADE_REGISTER_CLASS_LOSS("varifocal", VarifocalLoss, "class_weight: 1 focal_alpha: 0.75 cost_alpha: 0.25");
SACCADE_REGISTER_CLASS_LOSS("mal", MatchabilityLoss, "class_weight: 1 focal_gamma: 1.5 cost_gamma: 2");
SACCADE_REGISTER_CLASS_LOSS("ia_bce", IouAwareLoss, "");

}  // namespace
}  // namespace saccade
