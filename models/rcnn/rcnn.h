// Faster R-CNN (Ren et al. 2015), Mask R-CNN (He et al. 2017) and Cascade R-CNN on a feature pyramid: they
// first propose regions, then classify them. Numbers and names are those of mmdetection 2; differences of
// torchvision are options.
#pragma once

#include <memory>
#include <vector>

#include "models/backbone.h"
#include "models/detector.h"
#include "models/pyramid/fpn.h"
#include "models/rcnn/detections.h"
#include "models/rcnn/region_heads.h"
#include "models/rcnn/rpn.h"
#include "models/rcnn/stage_loss.h"

namespace saccade {

// One stage of region heads. Faster and Mask R-CNN have one. Cascade R-CNN (Cai and Vasconcelos 2018) has
// several, each with its own heads, which look at the boxes as moved by the stage before and require more
// overlap.
struct RcnnStage {
  RoiSampling sampling{};
  BoxCoder coder{.deviations = {0.1, 0.1, 0.2, 0.2}};
  double weight = 1;  // of its losses
};

struct RcnnOptions {
  FpnOptions fpn;
  RpnOptions rpn;
  std::vector<RcnnStage> stages;
  RoiAlignOptions box_regions, mask_regions;
  BoxHeadOptions box_head;
  bool masks = false;
  MaskHeadOptions mask_head;
  RegionDetectionOptions detections;
  BoxLoss box_loss = BoxLoss::kL1;
  double class_weight = 1, rpn_bbox_weight = 1, bbox_weight = 1;
};

// In a training step: the inputs of the losses. Otherwise: the detections.
struct RcnnOutput : DetectorOutput {
  ImageSize canvas;              // size of the padded images
  std::vector<ImageSize> sizes;  // without padding
  RpnOutput rpn;
  std::vector<StageOutput> stages;
  RegionDetections found;

  // "scores" [N, D], in descending order, 0 beyond the last detection; "boxes" [N, D, 4], corners relative to
  // the padded image; "labels" [N, D], whole numbers; "masks" [N, D, s, s], probabilities in the box.
  std::vector<std::pair<std::string, Var>> results() const override;
};

class Rcnn : public Detector {
 public:
  Rcnn(const RcnnOptions& options, std::shared_ptr<Backbone> backbone);
  std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) override;
  DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                     const StepImages& step = {}) const override;
  void prepare(const Target& target, uint64_t rng_key) const override { rpn_->prepare(target, rng_key); }
  ResultForm result_form() const override { return {.finished = true}; }
  std::optional<int64_t> background_label() const override {
    return options_.box_head.background_first ? std::optional<int64_t>(0) : std::nullopt;
  }
  std::vector<std::vector<ImageDetection>> postprocess(const DetectorOutput& output,
                                                       const std::vector<Target>& targets,
                                                       const PostprocessOptions& options) const override;
  std::vector<std::string> class_heads() const override;

 private:
  Vars pyramid(const DetectorInput& input) const;
  void learn(const Vars& levels, const ProposedRegions& proposals, const std::vector<Target>& targets,
             RcnnOutput& output) const;
  StageOutput learn_stage(size_t stage, const Vars& levels, const BoxLists& proposals,
                          const std::vector<Target>& targets) const;
  void find(const Vars& levels, const ProposedRegions& proposals, const Tensor& limits,
            RcnnOutput& output) const;
  Var find_masks(const Vars& levels, const RegionDetections& found) const;

  RcnnOptions options_;
  Child<Backbone> backbone_;
  Child<Fpn> neck_;
  Child<Rpn> rpn_;
  std::vector<Child<BoxHead>> box_heads_;    // one per stage
  std::vector<Child<MaskHead>> mask_heads_;  // one per stage; empty without masks
};

class Inference;

// ModelSpec::infer (weights.cpp).
bool infer_faster_rcnn(Inference& weights);
bool infer_mask_rcnn(Inference& weights);
bool infer_cascade_mask_rcnn(Inference& weights);

}  // namespace saccade
