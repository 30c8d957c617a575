// What a run has logged.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/pages/chart.h"

namespace saccade {

// The lines of metrics.jsonl of one type: each metric's values over the steps. Numbers that were not finite are left out.
using MetricCurves = std::map<std::string, std::vector<ChartPoint>>;

struct RunMetrics {
  MetricCurves train, eval;
  std::vector<double> resumed;  // the step from which each later start went on
  double seconds = 0;           // of all starts
  double step = 0, epoch = 0;   // of the last line
};
// Lines that are damaged are passed over. Throws InputError when there is no such file.
RunMetrics read_run_metrics(const std::string& path);

// Metrics of evaluations that a task wants to see in one chart.
struct MetricChart {
  std::string title, subtitle = {};
  std::vector<std::pair<std::string, std::string>> metrics =
      {};                                // as they are logged, and their names in the chart
  std::string prefix = {}, things = {};  // or all that begin with this, and what they are: "classes"
  bool of_training = false;              // of training steps
};

// The charts of a run, those of its task among them, and its time and speed as numbers.
void add_run_section(Page& page, const RunMetrics& metrics, const std::vector<MetricChart>& charts);

}  // namespace saccade
