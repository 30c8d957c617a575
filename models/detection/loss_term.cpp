#include "models/detection/loss_term.h"

#include "autograd/function.h"

namespace saccade {

Var in_sum_dtype(const Var& x) { return cast(x, sum_dtype(x.dtype())); }

Var sum_weighted(const Var& each, const LayerPrediction& predicted, const MatchedQueries& matched) {
  const int64_t G = predicted.boxes.dim(0), P = each.dim(0);
  const int pairs[] = {1};
  const Var weighted = matched.weights.defined() ? mul(each, Var(matched.weights)) : each;
  return sum(reshape(weighted, {G, P / G}), pairs);
}

Var binary_cross_entropy(const Var& logits, const Tensor& labels, LossParts parts) {
  // The focal loss with equal weights of one half and no focusing is half the cross entropy.
  return mul_scalar(sigmoid_focal_loss(logits, labels, 0.5, 0, parts), 2);
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

// Computes the loss of each pair separately if the pairs have weights.
template <class Loss>
Var sum_of_boxes(const Loss& loss, const LayerPrediction& predicted, const MatchedQueries& matched) {
  if (!matched.weights.defined()) return loss(layers_of(predicted.boxes));
  return sum_weighted(loss(LossParts::apart(matched.boxes.dim(0))), predicted, matched);
}

struct BoxTerm : LossTerm {
  bool of_boxes() const override { return true; }
};

struct L1Term : BoxTerm {
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    auto loss = [&](LossParts parts) { return l1_loss(matched.boxes, matched.truth, parts); };
    return sum_of_boxes(loss, predicted, matched);
  }
};

struct GiouTerm : BoxTerm {
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override {
    auto loss = [&](LossParts parts) { return giou_loss(matched.boxes, matched.truth, parts); };
    return sum_of_boxes(loss, predicted, matched);
  }
};

[[maybe_unused]] const bool class_term_registered = loss_terms().add(
    {"class", __FILE__, [](const std::shared_ptr<const ClassLoss>& loss) -> std::shared_ptr<const LossTerm> {
       return std::make_shared<ClassTerm>(loss);
     }});
[[maybe_unused]] const bool l1_registered = register_loss_term<L1Term>("bbox", __FILE__);
[[maybe_unused]] const bool giou_registered = register_loss_term<GiouTerm>("giou", __FILE__);

}  // namespace
}  // namespace saccade
