// D-FINE's decoder (Peng et al. 2024): the queries are chosen as RT-DETR's; the first layer predicts a box,
// the reference of the distributions that every layer refines. Parameter names are those of the official
// code.
#pragma once

#include "models/d_fine/distribution.h"
#include "models/rt_detr/hybrid_detector.h"

namespace saccade {

struct DFineDecoderOptions : HybridDecoderOptions {
  int64_t bins = 32;
  double bin_scale = 4;
};

class DFineDecoder : public HybridDecoder {
 public:
  // channels: of the encoder's maps
  DFineDecoder(int64_t channels, const DFineDecoderOptions& options);

 private:
  class QualityHead;
  void decode(const DecoderQueries& queries, const LevelTokens& tokens, bool record,
              SetOutput& output) override;

  DFineDecoderOptions options_;
  Var up_, bin_scale_;  // [1] each: constants, which the official files have as parameters
  Child<Mlp> query_pos_head_, pre_bbox_head_;
  std::vector<Child<Mlp>> dec_bbox_head_;
  std::vector<Child<QualityHead>> quality_heads_;
};

bool infer_d_fine(Inference& weights);  // see ModelSpec::infer

}  // namespace saccade
