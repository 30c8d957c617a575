// What a stage of an R-CNN says of the regions that it learns from, and the losses of it.
#pragma once

#include <vector>

#include "autograd/ops.h"
#include "core/types/step_images.h"
#include "models/rcnn/region_heads.h"
#include "models/rcnn/roi_samples.h"

namespace saccade {

struct StageOutput {
  RoiSamples samples;
  Tensor boxes;             // [R, 4]: of the samples, and of what fills their number up
  BoxHead::Result regions;  // of these
  Var mask_logits;  // likewise of the samples that stand for an object; undefined: no masks, or none does
};

enum class BoxLoss {
  kL1,        // of how the regions are moved
  kSmoothL1,  // the same, squares below 1
  kGiou,      // of the boxes that come of it
};

// [] f32 each, without weights: means over the regions of an image, of `masks` over those that stand for an
// object, and then over the images of the step, of `masks` over those with objects.
struct StageLoss {
  Var classes, boxes, masks;
};
StageLoss stage_loss(const StageOutput& output, const std::vector<Target>& targets, const StepImages& step,
                     const BoxCoder& coder, BoxLoss box_loss);

// The values, followed by this many others that there are `count`.
template <class T>
std::vector<T> filled(std::vector<T> values, int64_t count, T other) {
  values.resize(static_cast<size_t>(count), other);
  return values;
}

// Sums of losses of rows, each times its weight f32 [R] and all of them times `factor`; 0 of no rows.
// logits [R, K]; labels i64 [R]: the decision that is a yes, or -1
Var weighted_binary_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights,
                                  double factor);
// logits [R, K]; labels i64 [R] in [0, K)
Var weighted_cross_entropy(const Var& logits, const Tensor& labels, const Tensor& weights, double factor);
// deltas and targets [R, 4]; smooth: differences below it are squared (d^2 / 2 smooth), 0: none are
Var weighted_l1(const Var& deltas, const Tensor& targets, const Tensor& weights, double factor,
                double smooth = 0);
// boxes and targets [R, 4] as corners
Var weighted_giou(const Var& boxes, const Tensor& targets, const Tensor& weights, double factor);

}  // namespace saccade
