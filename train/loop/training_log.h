// The reports of a training run: lines on the console, metrics.jsonl and event files.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/distributed/process_group.h"
#include "core/types/metrics.h"
#include "data/images/image.h"
#include "train/config/config.h"
#include "train/logs/progress.h"
#include "train/logs/run_log.h"
#include "train/loop/trainer.h"

namespace saccade {

// How a run is divided into steps: a function of the configuration and the size of the data set. A step takes
// `accumulate` batches, and may continue into the next epoch.
struct TrainingPlan {
  static constexpr int64_t kNoLimit = int64_t{1} << 60;

  int64_t batches_per_epoch = 1, accumulate = 1;
  double eval_every_epochs = 0;
  int64_t total_steps = kNoLimit;  // kNoLimit if only time ends the run

  double steps_per_epoch() const {
    return static_cast<double>(batches_per_epoch) / static_cast<double>(accumulate);
  }
  double epochs_after(int64_t step) const { return static_cast<double>(step) / steps_per_epoch(); }
  // Whether step `step`, counted from 1, completes a period of `epochs` (0: no periods).
  bool ends_period(int64_t step, double epochs) const;
  bool evaluates(int64_t step) const { return step == total_steps || ends_period(step, eval_every_epochs); }
};

// Throws InputError if nothing ends the run, or if a schedule needs a planned end and there is none.
TrainingPlan make_plan(const Config& config, int64_t batches_per_epoch);

// Lines about settings that would take effect only after the planned end, also --max-steps (0: not given).
std::vector<std::string> warnings_on_length(const Config& config, const TrainingPlan& plan,
                                            int64_t stop_at_step);

// Means of metrics over the steps between two log lines.
class MetricAverager {
 public:
  // Adds the metrics of one step; values of a repeated name are summed.
  void add_step(const Metrics& metrics) {
    for (const auto& [name, value] : metrics) {
      if (!sums_.contains(name)) names_.push_back(name);
      sums_[name] += value;
    }
    ++steps_;
  }
  int64_t steps() const { return steps_; }
  // Returns 0 for an unknown name.
  double mean(const std::string& name) const {
    auto it = sums_.find(name);
    return it == sums_.end() ? 0 : it->second / static_cast<double>(steps_);
  }
  // In the order in which the names first appeared.
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

class TrainingLog {
 public:
  TrainingLog(const TrainerOptions& options, const TrainingPlan& plan, int64_t stop_step)
      : options_(options), plan_(plan), stop_step_(stop_step) {}

  // Starts the files of the run folder; see RunLog. Returns true if an evaluation at step `resume_step`, made
  // only because the run stopped there, was removed.
  bool open(int64_t resume_step);
  // Returns when everything written so far is on the disk.
  void sync() {
    if (files_) files_->sync();
  }
  // Prints a line on the console that stays.
  void message(const std::string& line);
  // Removes the progress line from the console.
  void clear_progress() { progress_.finish(); }

  // Adds the metrics of step `step`, including "loss", "images" and "step_ms"; writes the line of the last
  // log_every steps when it is due.
  void add_step(int64_t step, const Metrics& metrics);
  // Writes the line of the steps that have none yet.
  void write_step(int64_t step);
  void write_evaluation(int64_t step, const Metrics& metrics, const std::vector<std::string>& primary,
                        double seconds, bool scheduled);
  // Writes pictures of the evaluation after that step.
  void write_pictures(int64_t step, const std::vector<std::pair<std::string, Image>>& pictures);

  double elapsed_seconds() const { return seconds_since(start_); }

 private:
  std::string status(int64_t step) const;
  double images_per_second() const;

  bool prints() const { return writes_ && !options_.quiet; }

  const bool writes_ = process_group().is_first();  // only one of several processes does
  const TrainerOptions& options_;
  const TrainingPlan& plan_;
  int64_t stop_step_;
  std::optional<RunLog> files_;
  Progress progress_;
  MetricAverager averages_;  // since the last line
  double step_seconds_ = 0;  // running mean, for the ETA
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace saccade
