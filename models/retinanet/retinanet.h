// RetinaNet (Lin et al. 2017): a feature pyramid whose every cell says of nine anchors which classes they
// hold and where the object is exactly. Names and numbers are those of mmdetection 2; what torchvision does
// otherwise is an option.
#pragma once

#include <memory>
#include <vector>

#include "models/backbone.h"
#include "models/pyramid/fpn.h"
#include "models/retinanet/dense_output.h"

namespace saccade {

class Inference;

// Two towers of 3x3 convolutions, one before each prediction, that all levels share.
class RetinaHead : public Module {
 public:
  RetinaHead(int64_t channels, int64_t layers, int64_t anchors, int64_t classes);
  // levels [N, H, W, C] each -> the predictions of the output
  void forward(const Vars& levels, DenseOutput& output) const;

 private:
  std::vector<Child<Conv2d>> class_tower_, box_tower_;
  Child<Conv2d> class_, box_;
  int64_t columns_;
};

struct RetinaNetOptions {
  FpnOptions fpn;
  int64_t tower_layers = 4;
  DenseOptions dense;
};

class RetinaNet : public Detector {
 public:
  RetinaNet(const RetinaNetOptions& options, std::shared_ptr<Backbone> backbone);
  std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) override;
  DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                     const StepImages& step = {}) const override;
  int64_t count(const Target& target) const override { return dense_count(*dense_, target); }
  void prepare(const Target& target, uint64_t /*rng_key*/) const override { dense_count(*dense_, target); }
  ResultForm result_form() const override { return {.least_score = dense_->score_threshold}; }
  std::vector<std::vector<ImageDetection>> postprocess(const DetectorOutput& output,
                                                       const std::vector<Target>& targets,
                                                       const PostprocessOptions& options) const override;
  std::vector<std::string> class_heads() const override { return {"bbox_head.retina_cls."}; }

 private:
  std::shared_ptr<const DenseOptions> dense_;
  Child<Backbone> backbone_;
  Child<Fpn> neck_;
  Child<RetinaHead> head_;
};

// ModelSpec::infer (weights.cpp).
bool infer_retinanet(Inference& weights);

}  // namespace saccade
