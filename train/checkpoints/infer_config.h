// Finds which model a weights file belongs to: its configuration, by the rules of the model types
// (models/weights/inference.h), or the recipe whose model is the closest match.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/weights/model_json.h"
#include "models/weights/weight_names.h"
#include "train/config/config.h"

namespace saccade {

struct InferredConfig {
  Config config;  // the model with num_classes, and the criterion that fits it
  // What the file does not say and was assumed, such as "model.transformer.heads: 8".
  std::vector<std::string> assumed;
  ModelJson json;  // Hugging Face's config.json, if it is next to the file
};

// `given` holds what the user sets; it is not looked for in the file, but the result does not include it.
// Returns nothing if no model type has a rule that recognises the weights. Throws InputError if one does, but
// the shapes contradict each other or the backbone is unknown.
std::optional<InferredConfig> infer_config(const WeightsFile& file, const OfficialWeights& weights,
                                           const Config& given = {});

// The recipe whose model a weights file almost holds: some tensors are missing, or have other names.
struct NearestModel {
  std::string recipe;                // the recipe whose model shares the most names
  std::vector<std::string> missing;  // tensors of that model that the file lacks, by their official names
  int64_t others = 0;                // tensors of the file that the model does not have
  // "nearly a model as that of --model mask_rcnn_r50, but it lacks 1 of 307 tensors (...)", or
  // "a model as that of --model mask_rcnn_r50", where it lacks none
  std::string text() const;
  int64_t tensors = 0;
};

// Searches the models of all recipes by tensor names, under every known naming; returns nothing if too many
// are missing.
std::optional<NearestModel> nearest_model(const WeightsFile& file);

}  // namespace saccade
