// RT-DETR's decoder (Zhao et al. 2024, section 4.3): the tokens with the highest scores are the first queries; every layer has its
// own heads and refines the boxes of the one before. Parameter names are those of the official code of RT-DETRv2.
#pragma once

#include "layers/constant_keeper.h"
#include "layers/mlp.h"
#include "models/common/conv_norm.h"
#include "models/common/transformer.h"
#include "models/rt_detr/query_selection.h"

namespace saccade {

struct RtDetrDecoderOptions {
  TransformerOptions transformer;  // with its levels
  int64_t queries = 300;
  int64_t columns = 0;                // of the logits
  int64_t classes = 0;                // of them, those that stand for a class
  int64_t eval_layers = 0;            // how many layers run in evaluation; 0: all
  int64_t query_position_layers = 2;  // of the MLP that makes a query's position of its box
  DenoisingOptions denoising;
};

class RtDetrDecoder : public Module {
 public:
  // channels: of the encoder's maps
  RtDetrDecoder(int64_t channels, const RtDetrDecoderOptions& options);
  // maps: the encoder's, [N, H_l, W_l, channels]. In evaluation `layers` has the last one only.
  void forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output);
  std::string type_name() const override { return "RtDetrDecoder"; }

 private:
  void decode(const DecoderQueries& queries, const Var& memory, const TokenMaps& maps,
              const DetectorInput& input, SetOutput& output);

  RtDetrDecoderOptions options_;
  ConstantKeeper constants_;
  std::vector<std::shared_ptr<ConvNorm>> input_proj_;
  std::shared_ptr<TransformerDecoder> decoder_;
  std::shared_ptr<LabelEmbedding> denoising_class_embed_;  // null without denoising
  std::shared_ptr<Mlp> query_pos_head_;
  std::shared_ptr<QuerySelection> selection_;
  std::vector<std::shared_ptr<Linear>> dec_score_head_;
  std::vector<std::shared_ptr<Mlp>> dec_bbox_head_;
};

}  // namespace saccade
