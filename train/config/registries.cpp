#include "train/config/registries.h"

#include <map>

#include "core/kernels/optimizer/optimizer.h"
#include "core/tensor/error.h"
#include "layers/attention.h"
#include "models/backbone.h"
#include "models/build.h"
#include "train/optimizers/schedule.h"

namespace saccade {

std::vector<std::string> registered_names(const std::string& registry) {
  using Names = std::vector<std::string>;
  static const std::map<std::string, Names (*)()> kRegistries = {
      {"attention", [] { return attention_layers().names(); }},
      {"backbone", [] { return backbones().names(); }},
      {"model", [] { return model_types().names(); }},
      {"optimizer", [] { return kernels::optimizers().names(); }},
      {"schedule", [] { return schedules().names(); }},
  };
  auto it = kRegistries.find(registry);
  SACCADE_CHECK(it != kRegistries.end(), "[config] no registry \"{}\"", registry);
  return it->second();
}

}  // namespace saccade
