// What the weights of DETR and of its family have in common.
#pragma once

#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {

// The names of Hugging Face that all of them share.
WeightRules detr_rules();

struct InferredTransformer {
  int64_t heads = 0, encoder_layers = 0;
};
// Sets the fields of model.transformer but levels, points and queries.
InferredTransformer infer_transformer(Inference& weights);

// The same of a transformer whose layers sample levels: sets their number, which it returns, and the points.
int64_t infer_levels(Inference& weights, const InferredTransformer& transformer);
// Sets the stages of the backbone that the input projections read, where they are not the last `usual` ones.
void infer_projections(Inference& weights, int64_t usual);
// What only DINO has, among the models with levels.
constexpr const char* kDinoContent = "transformer.tgt_embed.weight";

// Sets the number of classes, from the first class head of these that there is,
// less the columns that stand for no class.
void infer_classes(Inference& weights, const std::vector<std::string>& heads, int64_t extra_columns);

// Sets the official losses, so that a checkpoint can be trained on. weight: of the class,
// in the loss and in the matching.
void infer_criterion(Inference& weights, const char* class_loss, int64_t weight);

}  // namespace saccade
