// ResNet v1.5 (He et al. 2016; stride in the 3x3 convolution) with torchvision's parameter names.
#pragma once

#include "layers/conv2d.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/classifier.h"

namespace saccade {

struct ResNetOptions {
  std::vector<int64_t> blocks{3, 4, 6, 3};
  int64_t width = 64;      // channels of the stem and of the first stage's 3x3 convolutions
  bool bottleneck = true;  // else basic blocks
  bool dilation = false;   // DC5: the last stage dilates instead of striding
  bool frozen_batch_norm = true;
  int64_t frozen_stages = 2;              // of {stem, stage 1, 2, ...}: not trained
  std::vector<int64_t> outputs{2, 3, 4};  // stages whose maps forward() returns, ascending
};

class ResNet : public Backbone {
 public:
  explicit ResNet(const ResNetOptions& options);
  std::vector<Var> forward(const Var& images) override;
  std::vector<int64_t> channels() const override;
  std::string type_name() const override { return "ResNet"; }

 private:
  class Block;
  struct Stage;
  ResNetOptions options_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::vector<std::shared_ptr<Stage>> stages_;
  std::vector<int64_t> stage_channels_;
};

// The mean of the last stage's map through one linear layer, `fc` of the official model.
class ResNetClassifier : public Classifier {
 public:
  ResNetClassifier(const ResNetOptions& options, int64_t num_classes);
  Var forward(const Var& images) override;
  int64_t num_classes() const override { return fc_->weight().dim(0); }
  std::string type_name() const override { return "ResNetClassifier"; }
  std::vector<std::string> class_heads() const override { return {"fc."}; }

 private:
  std::shared_ptr<ResNet> body_;
  std::shared_ptr<Linear> fc_;
};

bool infer_resnet(Inference& weights, const std::string& prefix);  // see BackboneSpec::infer
// The official depth of a ResNet of these blocks; 0: there is none.
int64_t resnet_depth(const std::vector<int64_t>& blocks, bool bottleneck);

}  // namespace saccade
