// Means of metrics over the steps between two log lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/types/metrics.h"

namespace saccade {

class MetricAverager {
 public:
  // The metrics of one step; a name that comes more than once counts with its sum.
  void add_step(const Metrics& metrics) {
    for (const auto& [name, value] : metrics) {
      if (!sums_.contains(name)) names_.push_back(name);
      sums_[name] += value;
    }
    ++steps_;
  }
  int64_t steps() const { return steps_; }
  // 0 for an unknown name.
  double mean(const std::string& name) const {
    auto it = sums_.find(name);
    return it == sums_.end() ? 0 : it->second / static_cast<double>(steps_);
  }
  // In the order in which the names came first.
  Metrics means() const {
    Metrics out;
    for (const std::string& n : names_) out.emplace_back(n, mean(n));
    return out;
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, double> sums_;
  int64_t steps_ = 0;
};

}  // namespace saccade
