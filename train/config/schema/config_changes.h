// The differences between two configurations, and which of them a resumed run or a checkpoint permits.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

struct ConfigChange {
  std::string field;     // "optimizer.learning_rate"
  std::string from, to;  // "none" for a field that is not set
  // From the rule of the field (configs/rules.proto): whether a run cannot continue with the change, and
  // whether a checkpoint permits it.
  bool breaks_resume = false, of_inference = false;

  std::string to_string() const;  // "optimizer.learning_rate: 0.001 -> 0.002"
};

// Compares resolved configurations, in the order of the schema.
std::vector<ConfigChange> config_changes(const Config& from, const Config& to);

// The fields that affect inference alone, where a message stands for all its fields: "data.workers, ...,
// eval, precision".
std::string inference_fields();

// A line for each field of a resolved configuration that differs from its default (of the model's family) but
// is not read, given the other fields: "note: train.ema_tau: 2000 does nothing without train.ema_decay".
// Fields that would do harm are refused instead (validate_config).
struct IdleField {
  std::string field, note;
};
std::vector<IdleField> idle_fields(const Config& config);

}  // namespace saccade
