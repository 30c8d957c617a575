// What a training run reports while it runs: lines on the console, metrics.jsonl and event files.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/distributed/process_group.h"
#include "data/images/image.h"
#include "train/logs/metric_averager.h"
#include "train/logs/progress.h"
#include "train/logs/run_log.h"
#include "train/loop/plan.h"
#include "train/loop/trainer.h"

namespace saccade {

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
