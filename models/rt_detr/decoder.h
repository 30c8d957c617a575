// RT-DETR's decoder (Zhao et al. 2024, section 4.3): the tokens with the highest scores are the first
// queries; every layer has its own heads and refines the boxes of the one before. Parameter names are those
// of the official code of RT-DETRv2.
#pragma once

#include "models/rt_detr/hybrid_detector.h"

namespace saccade {

struct RtDetrDecoderOptions : HybridDecoderOptions {
  int64_t eval_layers = 0;            // how many layers run in evaluation; 0: all
  int64_t query_position_layers = 2;  // of the MLP that makes a query's position of its box
};

class RtDetrDecoder : public HybridDecoder {
 public:
  // channels: of the encoder's maps
  RtDetrDecoder(int64_t channels, const RtDetrDecoderOptions& options);

 private:
  void decode(const DecoderQueries& queries, const LevelTokens& tokens, bool record,
              SetOutput& output) override;

  RtDetrDecoderOptions options_;
  Child<Mlp> query_pos_head_;
  std::vector<Child<Mlp>> dec_bbox_head_;
};

}  // namespace saccade
