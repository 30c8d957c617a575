// The region proposal network (Ren et al. 2015) on a feature pyramid: it finds the anchors that contain
// objects and refines their boxes. Numbers and names are those of mmdetection 2.
#pragma once

#include <memory>
#include <vector>

#include "core/types/step_images.h"
#include "layers/constant_keeper.h"
#include "layers/conv2d.h"
#include "models/pyramid/anchor_targets.h"
#include "models/pyramid/box_coder.h"
#include "models/pyramid/sampler.h"

namespace saccade {

struct RpnOptions {
  Anchors anchors;
  BoxCoder coder;
  MaxIouOptions assigner{.positive = 0.7, .negative = 0.3, .low_quality = true, .least_quality = 0.3};
  SamplerOptions sampler{.count = 256, .positives = 0.5};
  int64_t train_candidates = 2000, candidates = 1000;  // the number of the best kept in each level
  int64_t train_proposals = 1000, proposals = 1000;    // per image
  double nms = 0.7;                                    // among boxes of the same level
  double smooth = 0;                                   // of the box loss (weighted_l1)
  bool inside = false;  // ignores anchors that cross the edge of their image in training
};

// The anchors of an image that a step learns from.
struct SampledAnchors {
  int64_t image_id = 0;
  uint64_t rng_key = 0;  // of the step
  ImageSize size;
  std::vector<float> objects;  // corners_of_objects
  FeatureLevels maps;          // of the image's extent
  Sample sample;
  std::vector<int32_t> stands;  // the objects of the positives

  SampledAnchors(const Target& target, const RpnOptions& options, uint64_t key);
};

// Per level: logits [N, H, W, A], deltas [N, H, W, 4 A].
struct RpnOutput {
  Vars logits, deltas;
  FeatureLevels maps;
};

// Boxes [N, K, 4] as corners in pixels, clipped to their image, with their logits [N, K], best first; those
// below kLeftOut fill the rest.
struct ProposedRegions {
  Var boxes, scores;
};

struct RpnLoss {
  Var classes, boxes;  // [] f32
};

class Rpn : public Module {
 public:
  Rpn(int64_t channels, const RpnOptions& options);
  RpnOutput forward(const Vars& levels) const;
  // sizes: the sizes of the images without padding; limits f32 [N, 2]: the same as (width, height)
  ProposedRegions propose(const RpnOutput& output, const std::vector<ImageSize>& sizes,
                          const Tensor& limits) const;
  const Anchors& anchors() const { return options_.anchors; }
  void prepare(const Target& target, uint64_t rng_key) const;  // Detector::prepare
  // The mean over the sampled anchors of each image, averaged over the images of the step.
  RpnLoss loss(const RpnOutput& output, const std::vector<Target>& targets, const StepImages& step) const;

 private:
  // Per level: the anchors f32 [H W A, 4]; whether they are in the padding, bool [N, H W A],
  // undefined if no image has any.
  Tensors anchors_of(const RpnOutput& output) const;
  Tensors padding_of(const RpnOutput& output, const std::vector<ImageSize>& sizes) const;

  std::shared_ptr<const SampledAnchors> sampled(const Target& target, uint64_t rng_key) const;

  RpnOptions options_;
  mutable KeptTargets<SampledAnchors> sampled_;
  ConstantKeeper constants_;
  Child<Conv2d> conv_, class_, box_;
};

}  // namespace saccade
