// The varifocal loss (Zhang et al. 2021): a sigmoid whose target is the overlap of the matched boxes. alpha
// weighs the background, and as in RT-DETR the weights take no gradient.
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class VarifocalLoss : public ClassLoss {
 public:
  explicit VarifocalLoss(const ClassLossOptions& options) : options_(options) {}
  Var sum(const Var& logits, const MatchedQueries& matched) const override {
    return varifocal_loss(logits, label_queries(logits, matched, -1), matched_quality(logits, matched),
                          options_.focal_alpha, options_.focal_gamma, layers_of(logits));
  }

 private:
  ClassLossOptions options_;
};

// RT-DETR's weights; the focal cost of the matching keeps its own alpha.
SACCADE_REGISTER_CLASS_LOSS("varifocal", VarifocalLoss, "class_weight: 1 focal_alpha: 0.75 cost_alpha: 0.25");

}  // namespace
}  // namespace saccade
