// Named numbers of a run or an evaluation, in the order in which they are shown and logged.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {

using Metrics = std::vector<std::pair<std::string, double>>;

// Throws Error when there is none of this name.
inline double metric_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  fail("[metrics] no {}", name);
}

}  // namespace saccade
