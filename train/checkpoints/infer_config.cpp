#include "train/checkpoints/infer_config.h"

#include "models/build.h"
#include "models/weights/inference.h"

namespace saccade {

std::optional<InferredConfig> infer_config(const WeightsFile& file, const OfficialWeights& weights,
                                           const Config& given) {
  const Args given_model = given_model_args(given);
  // Only their names are those of a file with a config.json of its own.
  const ModelJson json =
      weights.naming.starts_with("Hugging Face") ? read_model_json(file.path()) : ModelJson();
  for (const auto& [name, spec] : model_types().all()) {
    Inference inference(file, weights, given_model, json);
    if (!spec.infer || !spec.infer(inference)) continue;
    InferredConfig out;
    out.config.mutable_model()->set_type(name);
    for (const auto& [field, value] : inference.fields) apply_set(out.config, field + "=" + value);
    out.assumed = std::move(inference.assumed);
    out.json = json;
    return out;
  }
  return std::nullopt;
}

}  // namespace saccade
