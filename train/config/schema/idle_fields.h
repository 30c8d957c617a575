// Fields of a configuration that are set and do nothing, because another one that they belong to is not.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

// A line for each field of a resolved configuration that differs from its default (of the model's family) and
// that nobody reads as the others stand: "note: train.ema_tau: 2000 does nothing without train.ema_decay".
// Fields that would spoil something are refused instead (validate_config).
std::vector<std::string> idle_fields(const Config& config);

}  // namespace saccade
