// D-FINE's decoder (Peng et al. 2024): the queries are chosen as RT-DETR's; the first layer predicts a box, the reference of the
// distributions that every layer refines. Parameter names are those of the official code.
#pragma once

#include "layers/constant_keeper.h"
#include "models/common/conv_norm.h"
#include "models/d_fine/distribution.h"
#include "models/rt_detr/query_selection.h"

namespace saccade {

struct DFineDecoderOptions {
  TransformerOptions transformer;  // with its levels
  int64_t queries = 300;
  int64_t columns = 0;  // of the logits
  int64_t classes = 0;  // of them, those that stand for a class
  int64_t bins = 32;
  double bin_scale = 4;
  DenoisingOptions denoising;
};

class DFineDecoder : public Module {
 public:
  // channels: of the encoder's maps
  DFineDecoder(int64_t channels, const DFineDecoderOptions& options);
  // maps: the encoder's, [N, H_l, W_l, channels]. In evaluation `layers` has the last one only.
  void forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output);
  std::string type_name() const override { return "DFineDecoder"; }

 private:
  class QualityHead;
  void decode(const DecoderQueries& queries, const Var& memory, const TokenMaps& maps,
              const DetectorInput& input, SetOutput& output);

  DFineDecoderOptions options_;
  ConstantKeeper constants_;
  std::vector<std::shared_ptr<ConvNorm>> input_proj_;  // empty where the maps have the decoder's channels
  Var up_, bin_scale_;  // [1] each: constants, which the official files have as parameters
  std::shared_ptr<TransformerDecoder> decoder_;
  std::shared_ptr<LabelEmbedding> denoising_class_embed_;  // null without denoising
  std::shared_ptr<Mlp> query_pos_head_, pre_bbox_head_;
  std::shared_ptr<QuerySelection> selection_;
  std::vector<std::shared_ptr<Linear>> dec_score_head_;
  std::vector<std::shared_ptr<Mlp>> dec_bbox_head_;
  std::vector<std::shared_ptr<QualityHead>> quality_heads_;
};

}  // namespace saccade
