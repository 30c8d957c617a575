// RT-DETR (Zhao et al. 2024) and RT-DETRv2 (Lv et al. 2024): backbone, hybrid encoder, query selection, decoder. Parameter names,
// counts and initialisation are those of the official code of v2; `level_points` of the cross-attention is all that v2 adds.
#pragma once

#include "models/backbone.h"
#include "models/detection/set_detector.h"
#include "models/rt_detr/decoder.h"
#include "models/rt_detr/hybrid_encoder.h"
#include "models/weights/weight_naming.h"

namespace saccade {

struct RtDetrOptions : SetDetectorOptions {
  HybridEncoderOptions encoder;
  RtDetrDecoderOptions decoder;  // but queries, columns and classes
};

class RtDetr : public SetDetector {
 public:
  RtDetr(const RtDetrOptions& options, std::shared_ptr<Backbone> backbone);
  SetOutput predict(const DetectorInput& input) override;
  std::string type_name() const override { return "RtDetr"; }
  std::vector<std::string> class_heads() const override {
    return {"decoder.enc_score_head.", "decoder.dec_score_head.", "decoder.denoising_class_embed."};
  }
  std::vector<std::string> repeated_heads() const override {
    return {"decoder.dec_score_head.", "decoder.dec_bbox_head."};
  }

 private:
  std::shared_ptr<Backbone> backbone_;
  std::shared_ptr<HybridEncoder> encoder_;
  std::shared_ptr<RtDetrDecoder> decoder_;
};

bool infer_rt_detr(Inference& weights);  // see ModelSpec::infer

// What the weights of RT-DETR and of its relatives have in common.
const WeightRules& hugging_face_rt_detr_names();
struct InferredHybrid {
  int64_t heads = 0, levels = 0, dim = 0;  // dim: of the encoder
};
// Sets the backbone, the fields of model.transformer but the points, and of `own`hybrid_encoder but the expansion.
InferredHybrid infer_hybrid(Inference& weights, const std::string& own);

}  // namespace saccade
