// What a run has logged.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/pages/chart.h"

namespace saccade {

// The lines of metrics.jsonl of one type: each metric's values over the steps.
// Numbers that were not finite are left out.
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

// Of a metric; not finite where it was not logged.
double mean_of(const MetricCurves& curves, const std::string& metric);
// The largest value, of equal ones the latest as for the best weights, and the last one; -1, which COCO gives
// where there are no objects, is none.
ChartPoint best_of(const MetricCurves& curves, const std::string& metric);
ChartPoint last_of(const MetricCurves& curves, const std::string& metric);

// The charts of a run, those of its task among them, and its time and speed as numbers. main_metric: that by
// which its best weights are chosen, the first of the numbers; "": there is none.
void add_run_section(Page& page, const RunMetrics& metrics, const std::vector<MetricChart>& charts,
                     const std::string& main_metric = "");

struct NamedRun {
  std::string name;
  const RunMetrics& metrics;
};

// What the runs have logged as comma-separated values: run, type (train or eval), step, and a column for each
// metric of any of them. A line for each step and evaluation; what was not logged there, or was no number,
// is empty.
std::string runs_csv(std::span<const NamedRun> runs);

}  // namespace saccade
