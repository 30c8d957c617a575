// The sigmoid focal loss (Lin et al. 2017).
#include "models/detection/class_loss.h"

namespace saccade {
namespace {

class FocalLoss : public ClassLoss {
 public:
  explicit FocalLoss(const ClassLossOptions& options) : options_(options) {}
  Var sum(const Var& logits, const MatchedQueries& matched) const override {
    return sigmoid_focal_loss(logits, label_queries(logits, matched, -1), options_.focal_alpha,
                              options_.focal_gamma, layers_of(logits));
  }

 private:
  ClassLossOptions options_;
};

SACCADE_REGISTER_CLASS_LOSS("focal", FocalLoss, "");

}  // namespace
}  // namespace saccade
