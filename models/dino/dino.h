// DINO (Zhang et al. 2023): Deformable DETR's encoder and decoder layers with mixed query selection
// (references from the encoder's best proposals, learned content), refined boxes that look forward twice, and
// contrastive denoising. Parameter names, counts and initialisation are the official ones.
#pragma once

#include "models/backbone.h"
#include "models/common/deformable_tokens.h"
#include "models/detection/set_detector.h"

namespace saccade {

struct DinoOptions : SetDetectorOptions {
  TransformerOptions transformer;
};

class Dino : public SetDetector {
 public:
  Dino(const DinoOptions& options, std::shared_ptr<Backbone> backbone);
  SetOutput predict(const DetectorInput& input) override;

 protected:
  void after_initialize(uint64_t seed, const std::string& prefix) override;

 private:
  class Transformer;
  // Boxes [N, Q, 4] of the tokens whose best class has the highest scores, without gradient,
  // and in `predictions` with it.
  Var choose_references(const LevelTokens& tokens, LayerPrediction& predictions) const;
  // queries: with references [N, Q, 4] in [0, 1], and no positions
  void decode(const DecoderQueries& queries, const LevelTokens& tokens, bool record, SetOutput& output);

  DinoOptions options_;
  Child<Backbone> backbone_;
  Child<InputProjections> input_proj_;
  Child<Transformer> transformer_;
  Child<LabelEmbedding> label_enc_;
  Child<Linear> class_embed_;  // of all layers, as the next one
  Child<Mlp> bbox_embed_;
  ConstantKeeper constants_;
};

bool infer_dino(Inference& weights);  // see ModelSpec::infer

}  // namespace saccade
