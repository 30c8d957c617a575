// The output of an R-CNN stage for the regions that it learns from, and its losses.
#pragma once

#include <vector>

#include "autograd/ops.h"
#include "core/types/step_images.h"
#include "models/rcnn/region_heads.h"
#include "models/rcnn/roi_samples.h"

namespace saccade {

struct StageOutput {
  RoiSamples samples;
  Tensor boxes;             // [R, 4]: of the samples, and of the rows that pad them
  BoxHead::Result regions;  // of these boxes
  Var mask_logits;  // of the samples with an object, padded likewise; undefined without masks or objects
};

enum class BoxLoss {
  kL1,        // of the deltas
  kSmoothL1,  // the same, with squares below 1
  kGiou,      // of the decoded boxes
};

// [] f32 each, unweighted: means over the regions of an image (`masks`: over those that stand for an object),
// averaged over the images of the step (`masks`: over those with objects).
struct StageLoss {
  Var classes, boxes, masks;
};
StageLoss stage_loss(const StageOutput& output, const std::vector<Target>& targets, const StepImages& step,
                     const BoxCoder& coder, BoxLoss box_loss);

// Returns the values, padded with `other` to `count`.
template <class T>
std::vector<T> filled(std::vector<T> values, int64_t count, T other) {
  values.resize(static_cast<size_t>(count), other);
  return values;
}

// Sums of losses of rows, each times its weight f32 [R], and the sum times `factor`; 0 for no rows.
// logits [R, K]; labels i64 [R]: the index of the positive decision, or -1
Var weighted_binary_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights,
                                  double factor);
// logits [R, K]; labels i64 [R] in [0, K)
Var weighted_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights, double factor);
// deltas and targets [R, 4]; smooth: smaller differences are squared (d^2 / 2 smooth); 0: none are
Var weighted_l1(const Var& deltas, const Tensor& targets, const Tensor& weights, double factor,
                double smooth = 0);
// boxes and targets [R, 4] as corners
Var weighted_giou(const Var& boxes, const Tensor& targets, const Tensor& weights, double factor);

}  // namespace saccade
