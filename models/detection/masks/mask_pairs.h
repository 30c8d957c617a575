// Base of the terms of masks: they compare the masks of matched queries with those of their objects, at the
// pixels of a map or at points.
#pragma once

#include "models/detection/loss_term.h"

namespace saccade {

// P pairs of a query and its object, K pixels or points each.
struct MaskPairs {
  Var logits;             // [P, K]
  Tensor truth, weights;  // f32 [P, K], 0 or 1; f32 [P]: 0 for an object without a mask, 1 for others
};

class MaskTerm : public LossTerm {
 public:
  Var sum(const LayerPrediction& predicted, const MatchedQueries& matched) const override;

 private:
  // Returns null if there are no pairs.
  virtual std::shared_ptr<const MaskPairs> pairs(const LayerPrediction& predicted,
                                                 const MatchedQueries& matched) const = 0;
  virtual Var loss(const MaskPairs& pairs) const = 0;  // [P]
};

// The mean binary cross entropy and the Dice loss (Milletari et al. 2016), [P].
Var mask_cross_entropy(const MaskPairs& pairs);
Var mask_dice(const MaskPairs& pairs);

// Pairs: a class derived from MaskTerm.
template <class Pairs, Var (*kLoss)(const MaskPairs&)>
struct MaskTermOf : Pairs {
  Var loss(const MaskPairs& pairs) const override { return kLoss(pairs); }
};

}  // namespace saccade
