// Faster R-CNN (Ren et al. 2015) and Mask R-CNN (He et al. 2017) on a feature pyramid: regions that may hold something, then what they hold.
// Numbers and names are those of mmdetection 2; what torchvision does otherwise is an option.
#pragma once

#include <memory>
#include <vector>

#include "models/backbone.h"
#include "models/detector.h"
#include "models/pyramid/fpn.h"
#include "models/rcnn/detections.h"
#include "models/rcnn/region_heads.h"
#include "models/rcnn/roi_samples.h"
#include "models/rcnn/rpn.h"

namespace saccade {

struct RcnnOptions {
  int64_t classes = 0;
  FpnOptions fpn;
  RpnOptions rpn;
  RoiSampling sampling;
  RoiAlignOptions box_regions, mask_regions;
  int64_t head_dim = 1024;
  bool background_first = false;
  bool masks = false;
  MaskHeadOptions mask_head;
  RegionDetectionOptions detections;
  double class_weight = 1, bbox_weight = 1;
};

// Before a training step: what the losses need. Otherwise: what was found.
struct RcnnOutput : DetectorOutput {
  ImageSize canvas;              // of the padded images
  std::vector<ImageSize> sizes;  // without padding
  RpnOutput rpn;
  RoiSamples samples;
  BoxHead::Result regions;  // of the samples, and of what fills their number up
  Var mask_logits;          // likewise of those that stand for an object; undefined: no masks, or none does
  RegionDetections found;

  // "scores" [N, D], by falling score, those of fewer detections 0; "boxes" [N, D, 4], corners as parts of the padded image; "labels"
  // [N, D], whole numbers; "masks" [N, D, s, s], probabilities in the box.
  std::vector<std::pair<std::string, Var>> results() const override;
};

class Rcnn : public Detector {
 public:
  Rcnn(const RcnnOptions& options, std::shared_ptr<Backbone> backbone);
  std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) override;
  DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                     const StepImages& step = {}) const override;
  ResultForm result_form() const override { return {.finished = true}; }
  std::vector<std::vector<ImageDetection>> postprocess(const DetectorOutput& output,
                                                       const std::vector<Target>& targets,
                                                       const PostprocessOptions& options) const override;
  std::vector<std::string> class_heads() const override {
    return {"roi_head.bbox_head.fc_cls.", "roi_head.bbox_head.fc_reg.", "roi_head.mask_head.conv_logits."};
  }
  std::string type_name() const override { return "Rcnn"; }

 private:
  Vars pyramid(const DetectorInput& input) const;
  void learn(const Vars& levels, const ProposedRegions& proposals, const std::vector<Target>& targets,
             RcnnOutput& output) const;
  void find(const Vars& levels, const ProposedRegions& proposals, const Tensor& limits,
            RcnnOutput& output) const;

  RcnnOptions options_;
  std::shared_ptr<Backbone> backbone_;
  std::shared_ptr<Fpn> neck_;
  std::shared_ptr<Rpn> rpn_;
  std::shared_ptr<BoxHead> box_head_;
  std::shared_ptr<MaskHead> mask_head_;  // null: no masks
};

class Inference;

// ModelSpec::infer (weights.cpp).
bool infer_faster_rcnn(Inference& weights);
bool infer_mask_rcnn(Inference& weights);

}  // namespace saccade
