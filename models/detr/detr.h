// DETR (Carion et al. 2020): backbone, one feature map, transformer, class and box heads that all decoder
// layers share. Parameter names, counts and initialisation are the official ones.
#pragma once

#include "layers/conv2d.h"
#include "layers/position_encoding.h"
#include "models/backbone.h"
#include "models/common/query_embedding.h"
#include "models/common/transformer.h"
#include "models/detection/set_detector.h"

namespace saccade {

struct DetrOptions : SetDetectorOptions {
  TransformerOptions transformer;
  bool learned_position = false;  // row and column embeddings in place of the sine encoding
};

class Detr : public SetDetector {
 public:
  Detr(const DetrOptions& options, std::shared_ptr<Backbone> backbone);
  DetectorOutput forward(const DetectorInput& input) override;
  std::string type_name() const override { return "Detr"; }

 private:
  class Transformer;

  DetrOptions options_;
  std::shared_ptr<Backbone> backbone_;
  std::shared_ptr<LearnedPositionEncoding> position_;
  std::shared_ptr<Transformer> transformer_;
  std::shared_ptr<Linear> class_embed_;
  std::shared_ptr<Mlp> bbox_embed_;
  std::shared_ptr<QueryEmbedding> query_embed_;
  std::shared_ptr<Conv2d> input_proj_;
};

bool infer_detr(Inference& weights);  // see ModelSpec::infer

}  // namespace saccade
