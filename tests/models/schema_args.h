// The arguments of a model as the configuration gives them: the schema's and the family's defaults.
#pragma once

#include "train/config/config.h"

namespace saccade::test {

inline Args schema_args(const std::string& type) {
  Config config;
  config.mutable_model()->set_type(type);
  return model_args(config);
}

}  // namespace saccade::test
