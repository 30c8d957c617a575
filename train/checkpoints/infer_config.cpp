#include "train/checkpoints/infer_config.h"

#include "models/build.h"
#include "models/weights/inference.h"

namespace saccade {

std::optional<InferredConfig> infer_config(const WeightsFile& file, const OfficialWeights& weights,
                                           const Config& given) {
  const Args given_model = given_model_args(given);
  for (const auto& [name, spec] : model_types().all()) {
    Inference inference(file, weights, given_model);
    if (!spec.infer || !spec.infer(inference)) continue;
    InferredConfig out;
    out.config.mutable_model()->set_type(name);
    for (const auto& [field, value] : inference.fields) apply_set(out.config, field + "=" + value);
    out.assumed = std::move(inference.assumed);
    return out;
  }
  return std::nullopt;
}

}  // namespace saccade
