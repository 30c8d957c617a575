// The configuration of a model from its weights, by the rules of the model types
// (models/weights/inference.h).
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
  ModelJson json;  // of Hugging Face, where it lies beside the file
};

// `given`: what the user sets; it is not asked of the file, but the result does not include it.
// Nothing when no model type has a rule that knows the weights. Throws InputError when they are, but their
// shapes contradict each other or their backbone is not known.
std::optional<InferredConfig> infer_config(const WeightsFile& file, const OfficialWeights& weights,
                                           const Config& given = {});

}  // namespace saccade
