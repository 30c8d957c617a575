// Deformable DETR (Zhu et al. 2021): backbone, one or more feature levels, deformable encoder and decoder,
// box and class heads, with iterative box refinement and two-stage proposals. Parameter names, counts and
// initialisation are the official ones.
#pragma once

#include "models/backbone.h"
#include "models/common/deformable_tokens.h"
#include "models/common/transformer.h"
#include "models/detection/set_detector.h"

namespace saccade {

struct DeformableDetrOptions : SetDetectorOptions {
  TransformerOptions transformer;
  bool box_refine = false;
  bool two_stage = false;
};

class DeformableDetr : public SetDetector {
 public:
  DeformableDetr(const DeformableDetrOptions& options, std::shared_ptr<Backbone> backbone);
  SetOutput predict(const DetectorInput& input) override;

 protected:
  void after_initialize(uint64_t seed, const std::string& prefix) override;

 private:
  class Transformer;
  // These return queries with references [N, Q, 2 or 4] in [0, 1].
  DecoderQueries learned_queries(int64_t batch);
  DecoderQueries proposed_queries(const Var& memory, const Proposals& proposals,
                                  LayerPrediction& predictions);
  // Encodes boxes [N, Q, 4] as (position, content) [N, Q, 2 C]; only with two stages.
  Var encode_boxes(const Tensor& boxes) const;
  void prepend(DenoisingQueries denoising, DecoderQueries& queries) const;
  void decode(const DecoderQueries& queries, const LevelTokens& tokens, bool record, SetOutput& output);
  // Returns the prediction of a head for targets [..., N, Q, C] around references [N, Q, 2 or 4].
  LayerPrediction predict(size_t head, const Var& target, const Var& reference) const;

  DeformableDetrOptions options_;
  Child<Backbone> backbone_;
  Child<InputProjections> input_proj_;
  Child<Transformer> transformer_;
  Child<QueryEmbedding> query_embed_;  // null with two stages
  // Denoising: encodes the content of its queries by class and, with one stage, their position by box.
  Child<LabelEmbedding> label_enc_;
  Child<Mlp> ref_point_head_;
  std::vector<Child<Linear>> class_embed_;
  std::vector<Child<Mlp>> bbox_embed_;
  ConstantKeeper constants_;
};

}  // namespace saccade
