// Compares several runs side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/report/run_metrics.h"

namespace saccade {

struct ComparedRun {
  std::string name;  // as the user gave it
  RunMetrics metrics;
  Config config;                          // resolved
  std::vector<MetricChart> charts;        // of its task
  std::string main_metric;                // the metric that chose its best weights; empty without evaluations
  std::vector<std::string> metric_names;  // the metrics that an evaluation reports, including this one
  std::optional<int64_t> parameters = {};
};

// Adds the results of the runs, their overlaid curves (one colour per run; by epochs if their steps have
// different numbers of images), and the differences between their configurations.
void add_comparison(Page& page, const std::vector<ComparedRun>& runs);

}  // namespace saccade
