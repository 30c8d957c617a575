// The terms of the set loss: what is asked of the matched queries, and of the others. A new one is one file
// with a line that registers it; families that predict what it needs have it in their
// CriterionOptions::terms.
#pragma once

#include <memory>
#include <string>

#include "core/runtime/registry.h"
#include "models/detection/class_loss.h"
#include "models/detection/set_output.h"

namespace saccade {

class LossTerm {
 public:
  virtual ~LossTerm() = default;
  // For each layer of `predicted`, [G, N, Q, ...], a sum over the batch, f32 [G].
  virtual Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const = 0;
  // As ClassLoss::divisor.
  virtual double divisor(const QueryCounts& step) const { return step.objects; }
  // Whether predictions of this kind have what it is about.
  virtual bool applies(const LayerPrediction&) const { return true; }
  // Whether it is about boxes: those of all layers may share one set of matched queries
  // (CriterionOptions::shared_boxes).
  virtual bool of_boxes() const { return false; }
};

// In the dtype of sums: f32, or f64 as it is.
Var in_sum_dtype(const Var& x);

// The pairs' numbers [P] times their weights, a sum for each layer [G].
Var sum_weighted(const Var& each, const LayerPrediction& predicted, const MatchedQueries& matched);

// Sums of the binary cross entropies of logits [..., K] with labels i64 [...]:
// the one of K decisions that is a yes, or -1.
Var binary_cross_entropy(const Var& logits, const Tensor& labels, LossParts parts);

struct LossTermSpec {
  std::string name;  // as the log names it
  std::string file;
  std::shared_ptr<const LossTerm> (*make)(std::shared_ptr<const ClassLoss> class_loss);
};

inline Registry<LossTermSpec>& loss_terms() { return registry_of<LossTermSpec>("loss term"); }

// Of a term that needs no class loss; for initialisers.
template <class Term>
bool register_loss_term(const char* name, const char* file) {
  return loss_terms().add(
      {name, file, [](std::shared_ptr<const ClassLoss>) -> std::shared_ptr<const LossTerm> {
         return std::make_shared<Term>();
       }});
}

}  // namespace saccade
