// The output of RetinaNet: for every anchor of every cell, the logits of all classes and the deltas that move
// it to the object.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/detector.h"
#include "models/pyramid/anchor_targets.h"
#include "models/pyramid/anchors.h"
#include "models/pyramid/box_coder.h"

namespace saccade {

// The options of computations on the predictions.
struct DenseOptions {
  Anchors anchors;
  BoxCoder coder;
  int64_t columns = 0;  // logits per anchor
  double class_weight = 1, bbox_weight = 1, focal_alpha = 0.25, focal_gamma = 2;
  double score_threshold = 0.05;
  int64_t candidates = 1000;  // per level, the best by score, before non-maximum suppression
  // Carries targets from RetinaNet::prepare or dense_count to dense_loss.
  std::shared_ptr<KeptAnchorTargets> targets = std::make_shared<KeptAnchorTargets>();
};

struct DenseOutput : DetectorOutput {
  std::shared_ptr<const DenseOptions> options;
  // Per level: [N, H, W, A * K] and [N, H, W, A * 4] with A anchors per cell.
  Vars logits, deltas;
  // The same for all levels, one after the other: [anchors of the batch, K] and [.., 4]. Undefined without
  // gradients.
  Var logit_rows, delta_rows;
  FeatureLevels maps;
  ImageSize canvas;              // size of the padded images
  std::vector<ImageSize> sizes;  // [N]

  // `logits` [N, anchors, K] and `boxes` [N, anchors, 4] as (cx, cy, w, h),
  // relative to the padded image and clipped to it.
  std::vector<std::pair<std::string, Var>> results() const override;
};

// The losses of Detector::loss: `class`, the focal loss of all anchors that are not ignored or in the
// padding, and `bbox`, the L1 loss of the deltas of those that stand for an object, both divided by the
// number of the latter in the step, at least 1 per image. Metrics: "positive_anchors", the number per image.
DetectionLoss dense_loss(const DenseOutput& output, const std::vector<Target>& targets,
                         const StepImages& step);
// Returns what an image adds to this number.
int64_t dense_count(const DenseOptions& options, const Target& target);

// As Detector::postprocess; boxes are clipped to the image.
std::vector<std::vector<ImageDetection>> dense_detections(const DenseOutput& output,
                                                          const std::vector<Target>& targets,
                                                          const PostprocessOptions& options);

}  // namespace saccade
