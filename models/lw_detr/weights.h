// Infers the configuration of LW-DETR and RF-DETR from their weights.
#pragma once

#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {

bool infer_lw_detr(Inference& weights);  // see ModelSpec::infer
bool infer_rf_detr(Inference& weights);
bool infer_rf_detr_seg(Inference& weights);

// Sets the fields of both families except those of the backbone that weights do not tell; returns false if
// they belong to another model.
bool infer_lw_detr_parts(Inference& weights);
// Sets the image size to a square of this side.
void infer_square_images(Inference& weights, int64_t side);
// Returns the block numbers that config.json has under backbone_config, or `usual`,
// which is then reported as assumed for this field.
std::vector<int64_t> infer_blocks(Inference& weights, const std::string& name,
                                  const std::vector<int64_t>& usual, const std::string& field);

// The names that Hugging Face uses for both, except those of the backbone.
WeightRules hugging_face_lw_detr_names();

constexpr const char* kLwDetrBackbone = "backbone.0.encoder.";

}  // namespace saccade
