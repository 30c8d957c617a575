// The arguments of a model as the configuration provides them: with the schema's and the family's defaults.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/build.h"
#include "train/config/config.h"

namespace saccade::test {

inline Config config_of(const std::string& type) {
  Config config;
  config.mutable_model()->set_type(type);
  return config;
}

inline Args schema_args(const std::string& type) { return model_args(config_of(type)); }
inline Args schema_criterion(const std::string& type = "deformable_detr") {
  return criterion_args(config_of(type));
}

// Uses the criterion of the model's family.
inline std::shared_ptr<Detector> build_detector(const Args& model, int64_t classes) {
  return build_as<Detector>(model, classes, schema_criterion(model.get_string("type", "")));
}

// The values of one of the model's tensors. If it has none of that name, which is a failure, returns zeros,
// enough for any index of a test.
inline std::vector<float> values_of(const Module& model, const std::string& name) {
  for (const NamedTensor& t : model.named_tensors())
    if (t.name == name) return t.var.value().to_vector<float>();
  ADD_FAILURE() << name;
  return std::vector<float>(100);
}

}  // namespace saccade::test
