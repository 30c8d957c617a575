#include "train/checkpoints/infer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "models/build.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"
#include "train/checkpoints/load_model.h"
#include "train/config/options.h"
#include "train/config/recipes.h"

namespace saccade {

std::optional<InferredConfig> infer_config(const WeightsFile& file, const OfficialWeights& weights,
                                           const Config& given) {
  const Args given_model = given_model_args(given);
  // Only files with Hugging Face's names come with its config.json.
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

namespace {

using Names = std::set<std::string>;

// The names of the file's tensors, translated by each naming that may apply.
std::vector<Names> possible_names(const WeightsFile& file) {
  std::vector<Names> all;
  const auto add = [&](const std::string& naming) {
    try {
      Names names;
      for (const NamedWeight& w : official_weights(file, naming).tensors) names.insert(w.name);
      if (std::ranges::find(all, names) == all.end()) all.push_back(std::move(names));
    } catch (const InputError&) {  // it does not follow this naming
    }
  };
  add("");
  for (const auto& [name, naming] : weight_namings().all()) add(name);
  return all;
}

Names names_of_model(const Config& config) {
  const int64_t classes = std::max<int64_t>(config.model().num_classes(), 1);
  Names names;
  for (const NamedTensor& t : sketch_model(build_args(config), classes)->named_tensors())
    names.insert(t.name);
  return names;
}

}  // namespace

std::string NearestModel::text() const {
  if (missing.empty()) return fmt::format("a model like that of --model {}", recipe);
  return fmt::format(
      "nearly a model like that of --model {}, but it lacks {} of {} ({}){}", recipe, missing.size(),
      count_of(static_cast<int64_t>(tensors), "tensor", "tensors"), some_of(missing, 4),
      others == 0 ? "" : " and has " + count_of(static_cast<int64_t>(others), "other", "others"));
}

std::optional<NearestModel> nearest_model(const WeightsFile& file) {
  constexpr int64_t kMaxDifferent = 10;  // per cent
  std::optional<NearestModel> nearest;
  const std::vector<Names> possible = possible_names(file);
  for (const Recipe& recipe : recipes()) {
    const Config config = resolve_config(parse_config(recipe.text, recipe.name));
    // A backbone without its class head is complete.
    if (model_types().find(config.model().type()).parts.empty()) continue;
    const Names wanted = names_of_model(config);
    for (const Names& names : possible) {
      NearestModel near{.recipe = recipe.name, .missing = {}, .tensors = std::ssize(wanted)};
      std::ranges::set_difference(wanted, names, std::back_inserter(near.missing));
      near.others = std::ssize(names) - (near.tensors - std::ssize(near.missing));
      const int64_t different = std::ssize(near.missing) + near.others;
      if (near.missing.empty() && near.others > 0) continue;
      if (100 * different > kMaxDifferent * near.tensors) continue;
      if (!nearest || different < std::ssize(nearest->missing) + nearest->others) nearest = std::move(near);
    }
  }
  return nearest;
}

}  // namespace saccade
