// The IoU-aware cross entropy (Cai et al. 2023, Align-DETR, as LW-DETR has it): a sigmoid whose target lies
// between the score and the overlap of the matched boxes, the score's share in the exponent being alpha.
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class IouAwareLoss : public ClassLoss {
 public:
  explicit IouAwareLoss(const ClassLossOptions& options) : options_(options) {}
  Var sum(const Var& logits, const MatchedQueries& matched) const override {
    return iou_aware_loss(logits, label_queries(logits, matched, -1), matched_quality(logits, matched),
                          options_.focal_alpha, options_.focal_gamma, layers_of(logits));
  }

 private:
  ClassLossOptions options_;
};

SACCADE_REGISTER_CLASS_LOSS("ia_bce", IouAwareLoss, "");

}  // namespace
}  // namespace saccade
