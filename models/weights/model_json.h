// config.json, which Hugging Face writes next to weights: what it says of the computation leaves no trace in
// names and shapes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

struct ModelJson {
  std::string path;  // "": there is none
  // Numbers, words and truth values at its top, and of a part, under "backbone_config.hidden_size".
  std::map<std::string, WeightScalar> values;
  std::map<std::string, std::vector<int64_t>> lists;  // the same of whole numbers
  std::vector<std::string> labels;                    // names of the classes (id2label); empty: it names none

  // A value of the wanted type; whole numbers are fractions too.
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

// The one in the folder of the weights, where it is of a model (it has a "model_type").
// Throws InputError where it is no JSON.
ModelJson read_model_json(const std::string& weights);

}  // namespace saccade
