// Infers the configuration of RT-DETR and its relatives from their weights, and translates their names.
#pragma once

#include "models/rt_detr/hybrid_detector.h"
#include "models/weights/weight_naming.h"

namespace saccade {

bool infer_rt_detr(Inference& weights);  // see ModelSpec::infer

// Shared with its relatives.
const WeightRules& hugging_face_rt_detr_names();
struct InferredHybrid {
  int64_t heads = 0, levels = 0, dim = 0;  // dim: of the encoder
};
// Sets the backbone, the fields of model.transformer except the points,
// and those of `own`hybrid_encoder except the expansion.
InferredHybrid infer_hybrid(Inference& weights, const std::string& own);

}  // namespace saccade
