// config.json, which Hugging Face writes next to the weights: it describes parts of the computation that
// names and shapes do not show.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

struct ModelJson {
  std::string path;  // empty if there is none
  // Numbers, strings and booleans at the top level, and those of a part under "backbone_config.hidden_size".
  std::map<std::string, WeightScalar> values;
  std::map<std::string, std::vector<int64_t>> lists;  // likewise, lists of whole numbers
  std::vector<std::string> labels;  // names of the classes (id2label); empty if it names none

  // Returns a value of the wanted type; whole numbers also count as fractions.
  template <class T>
  std::optional<T> find(const std::string& name) const {
    const auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    if (const T* value = std::get_if<T>(&it->second)) return *value;
    if constexpr (std::is_same_v<T, double>)
      if (const auto* whole = std::get_if<int64_t>(&it->second)) return static_cast<double>(*whole);
    return std::nullopt;
  }
};

// Reads the one in the folder of the weights, if it describes a model (it has a "model_type").
// Throws InputError if it is not valid JSON.
ModelJson read_model_json(const std::string& weights);

}  // namespace saccade
