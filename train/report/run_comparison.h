// Several runs side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/report/run_metrics.h"

namespace saccade {

struct ComparedRun {
  std::string name;  // as the user calls it
  RunMetrics metrics;
  Config config;                          // resolved
  std::vector<MetricChart> charts;        // of its task
  std::string main_metric;                // by which its best weights were chosen; "": nothing is evaluated
  std::vector<std::string> metric_names;  // what an evaluation reports, with it
  std::optional<int64_t> parameters = {};
};

// What became of the runs, their curves over each other (one colour a run; by epochs where their steps have
// different numbers of images), and in what their configurations differ.
void add_comparison(Page& page, const std::vector<ComparedRun>& runs);

}  // namespace saccade
