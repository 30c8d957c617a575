// Named numbers of a run or an evaluation, in the order in which they are shown and logged.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {

using Metrics = std::vector<std::pair<std::string, double>>;

// A metric that is a mean, as its numerator and denominator: several processes add up both. 0 if count is 0.
struct MeanMetric {
  std::string name;
  double sum = 0, count = 0;
  double value() const { return sum / std::max(count, 1.0); }
};
using MeanMetrics = std::vector<MeanMetric>;

// Adds to the metric of this name, which is appended if missing: this turns the metrics of a step's batches
// into those of the step.
inline void add_to(Metrics& metrics, const std::string& name, double value) {
  auto it = std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.first == name; });
  if (it == metrics.end())
    metrics.emplace_back(name, value);
  else
    it->second += value;
}
inline void add_to(MeanMetrics& means, const MeanMetric& more) {
  auto it = std::find_if(means.begin(), means.end(), [&](const auto& m) { return m.name == more.name; });
  if (it == means.end()) {
    means.push_back(more);
  } else {
    it->sum += more.sum;
    it->count += more.count;
  }
}

// Throws Error if there is no metric of this name.
inline double metric_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  fail("[metrics] no {}", name);
}

}  // namespace saccade
