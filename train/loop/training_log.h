// What a training run reports while it runs: lines on the console, metrics.jsonl and event files.
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

// How a run is divided into steps: a function of the configuration and the size of the data set.
// A step takes `accumulate` batches, which run on over the ends of epochs.
struct TrainingPlan {
  static constexpr int64_t kNoLimit = int64_t{1} << 60;

  int64_t batches_per_epoch = 1, accumulate = 1;
  double eval_every_epochs = 0;
  int64_t total_steps = kNoLimit;  // kNoLimit when only time ends the run

  double steps_per_epoch() const {
    return static_cast<double>(batches_per_epoch) / static_cast<double>(accumulate);
  }
  double epochs_after(int64_t step) const { return static_cast<double>(step) / steps_per_epoch(); }
  // Whether step `step`, counted from 1, completes a period of `epochs` (0: there are none).
  bool ends_period(int64_t step, double epochs) const;
  bool evaluates(int64_t step) const { return step == total_steps || ends_period(step, eval_every_epochs); }
};

// Throws InputError when nothing ends the run, or a schedule needs an end that is not there.
TrainingPlan make_plan(const Config& config, int64_t batches_per_epoch);

// Means of metrics over the steps between two log lines.
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

class TrainingLog {
 public:
  TrainingLog(const TrainerOptions& options, const TrainingPlan& plan, int64_t stop_step)
      : options_(options), plan_(plan), stop_step_(stop_step) {}

  // Starts the files of the run folder; see RunLog. True when an evaluation of step `resume_step`, made only
  // because the run stopped there, was taken out.
  bool open(int64_t resume_step);
  // What was written so far is on the disk when this returns.
  void sync() {
    if (files_) files_->sync();
  }
  // A line on the console that stays.
  void message(const std::string& line);
  // Removes the progress line from the console.
  void clear_progress() { progress_.finish(); }

  // The metrics of step `step`, "loss", "images" and "step_ms" among them; writes the line of the last
  // log_every steps when it is due.
  void add_step(int64_t step, const Metrics& metrics);
  // Writes the line of the steps that have none yet.
  void write_step(int64_t step);
  void write_evaluation(int64_t step, const Metrics& metrics, const std::vector<std::string>& primary,
                        double seconds, bool scheduled);
  // Of the evaluation after that step.
  void write_pictures(int64_t step, const std::vector<std::pair<std::string, Image>>& pictures);

  double elapsed_seconds() const { return seconds_since(start_); }

 private:
  std::string status(int64_t step) const;
  double images_per_second() const;

  bool prints() const { return writes_ && !options_.quiet; }

  const bool writes_ = process_group().is_first();  // of several processes one
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
