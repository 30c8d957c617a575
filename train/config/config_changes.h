// What differs between two configurations, and what of it a run that goes on, or a checkpoint, can bear.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

struct ConfigChange {
  std::string field;     // "optimizer.learning_rate"
  std::string from, to;  // "none" for a field that is not set
  // A run cannot go on with it: its weights, the state of its optimizer or the count of its epochs would be another's.
  bool breaks_resume = false;
  // A checkpoint bears it: neither its weights nor how they were trained have to do with it.
  bool of_inference = false;

  std::string to_string() const;  // "optimizer.learning_rate: 0.001 -> 0.002"
};

// Of resolved configurations, in the order of the schema.
std::vector<ConfigChange> config_changes(const Config& from, const Config& to);

}  // namespace saccade
