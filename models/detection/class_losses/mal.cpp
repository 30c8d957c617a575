// DEIM's matchability-aware loss (Huang et al. 2025): a sigmoid whose target is a power of the overlap of the
// matched boxes, all matches weighing the same, so that poor ones are learnt from as well.
// DEIM's gamma is 1.5.
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class MatchabilityLoss : public ClassLoss {
 public:
  explicit MatchabilityLoss(const ClassLossOptions& options) : gamma_(options.focal_gamma) {}
  Var sum(const Var& logits, const MatchedQueries& matched) const override {
    return matchability_loss(logits, label_queries(logits, matched, -1), matched_quality(logits, matched),
                             gamma_, layers_of(logits));
  }

 private:
  double gamma_;
};

// DEIM's weights; the focal cost of the matching keeps its own gamma.
SACCADE_REGISTER_CLASS_LOSS("mal", MatchabilityLoss, "class_weight: 1 focal_gamma: 1.5 cost_gamma: 2");

}  // namespace
}  // namespace saccade
