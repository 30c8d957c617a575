// The evaluations, saves and the end of a run; start.cpp has its start, training_step.cpp a step.
#include "train/loop/trainer.h"

#include <algorithm>
#include <cmath>

#include "core/runtime/interrupt.h"
#include "core/tensor/execution.h"
#include "models/not_finite.h"
#include "train/config/options.h"
#include "train/config/schema/config_changes.h"
#include "train/loop/training_run.h"

namespace saccade {

TrainingResult train(const TrainerOptions& options, TrainingTask& task) {
  RunFolder folder(options.output);
  return train(options, task, folder);
}

TrainingResult train(const TrainerOptions& options, TrainingTask& task, RunFolder& folder) {
  return TrainingRun(options, task, folder).run();
}

TrainingRun::TrainingRun(const TrainerOptions& options, TrainingTask& task, RunFolder& folder)
    : options_(options),
      task_(task),
      config_(options.config),
      model_(task.model()),
      plan_(make_plan(options.config, task.batches_per_epoch())),
      schedule_(options.config.schedule()),
      stop_step_(options.stop_at_step > 0 ? std::min(options.stop_at_step, plan_.total_steps)
                                          : plan_.total_steps),
      folder_(folder),
      log_(options, plan_, stop_step_),
      buffers_(model_) {
  check_schedule(schedule_);
}

TrainingResult TrainingRun::run() {
  ExecutionScope scope;
  begin();
  while (go_on()) {
  }
  return end();
}

void TrainingRun::set_execution() {
  set_precision(precision_of(config_));
  execution().deterministic = config_.deterministic();
  execution().grad_enabled = true;
}

void TrainingRun::begin() {
  set_execution();
  start();
  check_interrupt();
  describe();
  for (const IdleField& idle : idle_fields(config_)) log_.message(idle.note);
  for (const std::string& line : warnings_on_length(config_, plan_, options_.stop_at_step))
    log_.message(line);
  for (const std::string& line : task_.describe_data()) log_.message(line);
  model_.set_training(true);
  if (info_.evaluation_due) {
    evaluate_if_due();
    save_last();
  }
  stopping_ = info_.evaluation_due || out_of_patience();
  if (info_.step < stop_step_ && !stopping_) {
    try_largest_batch();
    check_interrupt();
    next_batch_ = task_.open_batches(info_.epoch, info_.batch);
  }
}

bool TrainingRun::go_on() {
  if (info_.step >= stop_step_ || stopping_) return false;
  set_execution();
  step();
  out_of_time_ = is_out_of_time();
  stopping_ = out_of_time_ || stop_signal() != 0;
  evaluate_and_save(info_.step == stop_step_ || stopping_);
  if (!stopping_ && plan_.evaluates(info_.step) && out_of_patience()) {
    stopping_ = true;
    log_.write_step(info_.step);
  }
  stopping_ = stopping_ || info_.evaluation_due;
  return true;
}

void TrainingRun::save() {
  if (!folder_begun_) begin_folder();
  finish_pending_step();
  save_last();
}

TrainingResult TrainingRun::end() {
  next_batch_ = nullptr;
  log_.clear_progress();
  if (!plan_.evaluates(info_.step) && stop_signal() == 0) {
    try {
      evaluate(false);
    } catch (const Interrupted&) {  // everything has been saved
      agree_on_signal();
    }
  }
  result_.reason = stop_reason(out_of_time_);
  result_.signal = stop_signal();
  return result_;
}

bool TrainingRun::is_out_of_time() const {
  if (!group_.alone()) return agreed_out_of_time_;
  const double seconds = config_.train().max_minutes() * 60;
  return seconds > 0 && log_.elapsed_seconds() >= seconds;
}

bool TrainingRun::out_of_patience() const {
  const int64_t patience = config_.train().patience();
  // A model that has found nothing yet cannot have stopped improving.
  if (patience == 0 || info_.best_step < 0 || info_.best_metric <= 0 || info_.evaluation_due) return false;
  int64_t since = 0;
  for (int64_t step = info_.best_since + 1; step <= info_.step; ++step) since += plan_.evaluates(step);
  return since >= patience;
}

StopReason TrainingRun::stop_reason(bool out_of_time) const {
  if (stop_signal() != 0) return StopReason::kSignal;
  if (info_.step >= plan_.total_steps) return StopReason::kComplete;
  if (out_of_patience()) return StopReason::kPatience;
  return out_of_time ? StopReason::kTime : StopReason::kStep;
}

void TrainingRun::evaluate_and_save(bool last) {
  const int64_t every = config_.train().checkpoint_every_steps();
  info_.evaluation_due = plan_.evaluates(info_.step);
  if (!info_.evaluation_due && !last && !plan_.ends_period(info_.step, 1) &&
      !(every > 0 && info_.step % every == 0))
    return;
  finish_pending_step();
  if (last) log_.write_step(info_.step);
  evaluate_if_due();
  save_last();
}

void TrainingRun::save_last() {
  log_.sync();
  folder_.save_last(model_, info_, *optimizer_, ema());
}

// If a signal interrupts an evaluation, it stays due, and a resumed run begins with it.
void TrainingRun::evaluate_if_due() {
  if (!info_.evaluation_due) return;
  try {
    evaluate(true);
    info_.evaluation_due = false;
  } catch (const Interrupted&) {
    agree_on_signal();
    model_.set_training(true);
  }
}

// A scheduled evaluation is part of the run; any other was caused by the point at which the run stops, and
// leaves no trace in last.safetensors, so that a resumed run equals one that never stopped.
void TrainingRun::evaluate(bool scheduled) {
  const std::vector<std::string> primary = task_.primary_metrics();
  if (primary.empty()) return;
  const double begin = log_.elapsed_seconds();
  execution().samples = 0;
  log_.clear_progress();
  {
    EmaScope averages(ema());
    model_.set_training(false);
    {
      NoGrad no_grad;
      try {
        result_.metrics = task_.evaluate(options_.quiet || !group_.is_first());
      } catch (const NotFinite& error) {
        fail("evaluation after step {}: {}; {}", info_.step, error.what(), remedy_of_divergence(config_));
      }
    }
    if (!group_.alone()) share_metrics(result_.metrics);
    keep_if_best(metric_of(result_.metrics, result_.best_name), scheduled);
    model_.set_training(true);
  }
  log_.write_evaluation(info_.step, result_.metrics, primary, log_.elapsed_seconds() - begin, scheduled);
  for (const std::string& note : task_.evaluation_notes())
    if (told_.insert(note).second) log_.message(note);
  if (group_.is_first()) log_.write_pictures(info_.step, task_.pictures());
}

void TrainingRun::keep_if_best(double metric, bool scheduled) {
  if (!std::isfinite(metric)) metric = -1;  // it could not be measured
  // Of equal metrics the newest is best: its weights have trained longer, which matters especially while all
  // of them are 0 or 1.
  if (result_.best_step >= 0 && metric < result_.best_metric) return;
  const bool rises = result_.best_step < 0 || metric > result_.best_metric;
  result_.best_metric = metric;
  result_.best_step = info_.step;
  CheckpointInfo info = info_;
  info.best_metric = metric;
  info.best_step = info_.step;
  if (rises) info.best_since = info_.step;
  info.ema_updates = ema_ ? ema_->updates() : 0;
  info.evaluation_due = false;
  folder_.save_best(model_, info, scheduled);
  if (!scheduled) return;
  info_.best_metric = metric;
  info_.best_step = info_.step;
  info_.best_since = info.best_since;
}

}  // namespace saccade
