// The varifocal loss (Zhang et al. 2021): a sigmoid whose target is the overlap of the matched boxes. alpha weighs the background,
// and as in RT-DETR the weights take no gradient.
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class VarifocalLoss : public ClassLoss {
 public:
  explicit VarifocalLoss(const ClassLossOptions& options) : options_(options) {}
  Sum sum(const Var& logits, const MatchedQueries& matched, double objects) const override {
    return Sum::over(
        varifocal_loss(logits, label_queries(logits, matched, -1), matched_quality(logits, matched),
                       options_.focal_alpha, options_.focal_gamma, layers_of(logits)),
        objects);
  }

 private:
  ClassLossOptions options_;
};

SACCADE_REGISTER_CLASS_LOSS("varifocal", VarifocalLoss);

}  // namespace
}  // namespace saccade
