#pragma once

#include <span>
#include <string>

#include "train/report/run_metrics.h"

namespace saccade {

struct NamedRun {
  std::string name;
  const RunMetrics& metrics;
};

// What the runs have logged as comma-separated values: run, type (train or eval), step, and a column for each
// metric of any of them. A line for each step and evaluation; what was not logged there, or was no number,
// is empty.
std::string runs_csv(std::span<const NamedRun> runs);

}  // namespace saccade
