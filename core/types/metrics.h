// Named numbers of a run or an evaluation, in the order in which they are shown and logged.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {

using Metrics = std::vector<std::pair<std::string, double>>;

// One that is a mean, as what it divides: several processes add up both. 0 of nothing.
struct MeanMetric {
  std::string name;
  double sum = 0, count = 0;
  double value() const { return sum / std::max(count, 1.0); }
};
using MeanMetrics = std::vector<MeanMetric>;

// Throws Error when there is none of this name.
inline double metric_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  fail("[metrics] no {}", name);
}

}  // namespace saccade
