// RT-DETR (Zhao et al. 2024) and RT-DETRv2 (Lv et al. 2024): backbone, hybrid encoder, query selection,
// decoder. Parameter names, counts and initialisation are those of the official code of v2; `level_points` of
// the cross-attention is all that v2 adds.
#pragma once

#include "models/rt_detr/decoder.h"
#include "models/weights/weight_naming.h"

namespace saccade {

class RtDetr : public HybridDetector {
 public:
  RtDetr(const HybridOptions& options, const RtDetrDecoderOptions& decoder,
         std::shared_ptr<Backbone> backbone)
      : HybridDetector(options, std::move(backbone)) {
    make_decoder<RtDetrDecoder>(decoder);
  }
};

bool infer_rt_detr(Inference& weights);  // see ModelSpec::infer

// What the weights of RT-DETR and of its relatives have in common.
const WeightRules& hugging_face_rt_detr_names();
struct InferredHybrid {
  int64_t heads = 0, levels = 0, dim = 0;  // dim: of the encoder
};
// Sets the backbone, the fields of model.transformer but the points,
// and of `own`hybrid_encoder but the expansion.
InferredHybrid infer_hybrid(Inference& weights, const std::string& own);

}  // namespace saccade
