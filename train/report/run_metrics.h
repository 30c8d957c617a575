// Reads what a run has logged.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/pages/chart.h"

namespace saccade {

// The lines of one type in metrics.jsonl: each metric's values over the steps, without those that were not
// finite.
using MetricCurves = std::map<std::string, std::vector<ChartPoint>>;

struct RunMetrics {
  MetricCurves train, eval;
  std::vector<double> resumed;            // the steps from which later starts continued
  double seconds = 0;                     // of all starts
  double step = 0, epoch = 0;             // of the last line
  std::vector<std::string> remarks = {};  // on what was left out: "warning: ..." or "note: ..."
};
// Leaves out damaged lines. Throws InputError if the file does not exist.
RunMetrics read_run_metrics(const std::string& path);

// Evaluation metrics that a task shows in one chart.
struct MetricChart {
  std::string title, subtitle = {};
  std::vector<std::pair<std::string, std::string>> metrics = {};  // names in the log, and in the chart
  std::string prefix = {}, things = {};  // or all that begin with the prefix, and what these are: "classes"
  bool of_training = false;              // of training steps
};

// Returns the mean of a metric; not finite if it was not logged.
double mean_of(const MetricCurves& curves, const std::string& metric);
// Returns the largest value (the latest of equal ones, as for the best weights), and the last one. -1, which
// COCO gives if there are no objects, does not count.
ChartPoint best_of(const MetricCurves& curves, const std::string& metric);
ChartPoint last_of(const MetricCurves& curves, const std::string& metric);

// Adds the charts of a run, including those of its task, and its time and speed as numbers. main_metric,
// which chooses its best weights, is the first of the numbers; empty if there is none.
void add_run_section(Page& page, const RunMetrics& metrics, const std::vector<MetricChart>& charts,
                     const std::string& main_metric = "");

struct NamedRun {
  std::string name;
  const RunMetrics& metrics;
};

// Returns what the runs have logged as comma-separated values: run, type (train or eval), step, and a column
// for each metric of any run. Each step and evaluation has a line; values that were not logged or not finite
// are empty.
std::string runs_csv(std::span<const NamedRun> runs);

}  // namespace saccade
