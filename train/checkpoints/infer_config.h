// Which model a file of weights is of: its configuration, by the rules of the model types
// (models/weights/inference.h), or the recipe whose model it nearly is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/weights/model_json.h"
#include "models/weights/weight_names.h"
#include "train/config/config.h"

namespace saccade {

struct InferredConfig {
  Config config;  // model with num_classes, and the criterion that fits it
  // What the file does not say and was assumed: "model.transformer.heads: 8".
  std::vector<std::string> assumed;
  ModelJson json;  // of Hugging Face, where it is next to the file
};

// `given`: what the user sets; it is not asked of the file, but the result does not include it.
// Nothing when no model type has a rule that knows the weights. Throws InputError when they are, but their
// shapes contradict each other or their backbone is not known.
std::optional<InferredConfig> infer_config(const WeightsFile& file, const OfficialWeights& weights,
                                           const Config& given = {});

// What a file of weights nearly is: one of which some tensors are missing, or have other names.
struct NearestModel {
  std::string recipe;                // whose model has most of the names
  std::vector<std::string> missing;  // its tensors that the file lacks, by their official names
  int64_t others = 0;                // tensors of the file that it does not have
  // "nearly a model as that of --model mask_rcnn_r50, but it lacks 1 of 307 tensors (...)", or
  // "a model as that of --model mask_rcnn_r50", where it lacks none
  std::string text() const;
  int64_t tensors = 0;
};

// Among the models of all recipes, by the names of tensors under every naming that is known; nothing where
// too many are missing.
std::optional<NearestModel> nearest_model(const WeightsFile& file);

}  // namespace saccade
