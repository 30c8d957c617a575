// Parts shared by the rules for weights of DETR and its family.
#pragma once

#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {

// The Hugging Face names that all of them share.
WeightRules detr_rules();

struct InferredTransformer {
  int64_t heads = 0, encoder_layers = 0;
};
// Sets the fields of model.transformer except levels, points and queries.
InferredTransformer infer_transformer(Inference& weights);

// For a transformer whose layers sample levels: sets the number of levels, which it returns, and the points.
int64_t infer_levels(Inference& weights, const InferredTransformer& transformer);
// Sets the backbone stages that the input projections read if they are not the last `usual` ones.
void infer_projections(Inference& weights, int64_t usual);
// A tensor that only DINO has among the models with levels.
constexpr const char* kDinoContent = "transformer.tgt_embed.weight";

// Sets the number of classes from the first of these class heads that exists,
// minus the columns that stand for no class.
void infer_classes(Inference& weights, const std::vector<std::string>& heads, int64_t extra_columns);

// Sets the official losses, so that a checkpoint can be trained further. weight: of the class,
// in the loss and in the matching.
void infer_criterion(Inference& weights, const char* class_loss, int64_t weight);

}  // namespace saccade
