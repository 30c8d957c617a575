// The terms of the set loss: what they require of the matched queries and of the others. A new one needs one
// file with a line that registers it; families that predict its inputs list it in CriterionOptions::terms.
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
  // Returns a sum over the batch for each layer of `predicted`, [G, N, Q, ...], f32 [G].
  virtual Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const = 0;
  // See ClassLoss::divisor.
  virtual double divisor(const QueryCounts& step) const { return step.objects; }
  // Returns whether predictions of this kind have the inputs of the term.
  virtual bool applies(const LayerPrediction&) const { return true; }
  // Whether the term is about boxes: such terms of all layers may share one set of matched queries
  // (CriterionOptions::shared_boxes).
  virtual bool of_boxes() const { return false; }
};

// Casts to the dtype of sums: f32, with f64 unchanged.
Var in_sum_dtype(const Var& x);

// Multiplies the pairs' values [P] by their weights and sums them for each layer [G].
Var sum_weighted(const Var& each, const LayerPrediction& predicted, const MatchedQueries& matched);

// Sums the binary cross entropies of logits [..., K] with labels i64 [...],
// the index of the positive one of K decisions, or -1.
Var binary_cross_entropy(const Var& logits, const Tensor& labels, LossParts parts);

struct LossTermSpec {
  std::string name;  // its name in the log
  std::string file;
  std::shared_ptr<const LossTerm> (*make)(const std::shared_ptr<const ClassLoss>& class_loss);
};

inline Registry<LossTermSpec>& loss_terms() { return registry_of<LossTermSpec>("loss term"); }

// Registers a term that needs no class loss; for initialisers.
template <class Term>
bool register_loss_term(const char* name, const char* file) {
  return loss_terms().add(
      {name, file, [](const std::shared_ptr<const ClassLoss>&) -> std::shared_ptr<const LossTerm> {
         return std::make_shared<Term>();
       }});
}

}  // namespace saccade
