#include "models/detection/loss_term.h"

namespace saccade {

Registry<LossTermSpec>& loss_terms() {
  static Registry<LossTermSpec> registry("loss term");
  return registry;
}

namespace {

class ClassTerm : public LossTerm {
 public:
  explicit ClassTerm(std::shared_ptr<const ClassLoss> loss) : loss_(std::move(loss)) {}
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    return loss_->sum(predicted.logits, matched);
  }
  double divisor(const QueryCounts& step) const override { return loss_->divisor(step); }

 private:
  std::shared_ptr<const ClassLoss> loss_;
};

struct L1Term : LossTerm {
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    return l1_loss(matched.boxes, matched.truth, layers_of(predicted.boxes));
  }
};

struct GiouTerm : LossTerm {
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    return giou_loss(matched.boxes, matched.truth, layers_of(predicted.boxes));
  }
};

template <class Term>
bool register_box_term(const char* name) {
  return loss_terms().add(
      {name, __FILE__, [](std::shared_ptr<const ClassLoss>) -> std::shared_ptr<const LossTerm> {
         return std::make_shared<Term>();
       }});
}

[[maybe_unused]] const bool class_term_registered = loss_terms().add(
    {"class", __FILE__, [](std::shared_ptr<const ClassLoss> loss) -> std::shared_ptr<const LossTerm> {
       return std::make_shared<ClassTerm>(std::move(loss));
     }});
[[maybe_unused]] const bool l1_registered = register_box_term<L1Term>("bbox");
[[maybe_unused]] const bool giou_registered = register_box_term<GiouTerm>("giou");

}  // namespace
}  // namespace saccade
