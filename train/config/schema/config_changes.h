// What differs between two configurations, and what of it a run that continues, or a checkpoint, can bear.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

struct ConfigChange {
  std::string field;     // "optimizer.learning_rate"
  std::string from, to;  // "none" for a field that is not set
  // As the rule of the field says (configs/rules.proto): a run cannot continue with it; a checkpoint bears
  // it.
  bool breaks_resume = false, of_inference = false;

  std::string to_string() const;  // "optimizer.learning_rate: 0.001 -> 0.002"
};

// Of resolved configurations, in the order of the schema.
std::vector<ConfigChange> config_changes(const Config& from, const Config& to);

// The fields that only inference depends on, a message for all that is in it: "data.workers, ...,
// eval, precision".
std::string inference_fields();

// A line for each field of a resolved configuration that differs from its default (of the model's family) and
// that nobody reads as the others stand: "note: train.ema_tau: 2000 does nothing without train.ema_decay".
// Fields that would spoil something are refused instead (validate_config).
struct IdleField {
  std::string field, note;
};
std::vector<IdleField> idle_fields(const Config& config);

}  // namespace saccade
