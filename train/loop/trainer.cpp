// How a run starts, evaluates, saves and ends; training_step.cpp is one step of it.
#include "train/loop/trainer.h"

#include <algorithm>

#include "core/tensor/execution.h"
#include "train/checkpoints/init_from.h"
#include "train/config/options.h"
#include "train/loop/training_run.h"

namespace saccade {

TrainingResult train(const TrainerOptions& options, TrainingTask& task) {
  check_schedule(schedule_options(options.config.schedule()));
  return TrainingRun(options, task).run();
}

TrainingRun::TrainingRun(const TrainerOptions& options, TrainingTask& task)
    : options_(options),
      task_(task),
      config_(options.config),
      model_(task.model()),
      plan_(make_plan(options.config, task.batches_per_epoch())),
      schedule_(schedule_options(options.config.schedule())),
      stop_step_(options.stop_at_step > 0 ? std::min(options.stop_at_step, plan_.total_steps)
                                          : plan_.total_steps),
      folder_(options.output),
      log_(options, plan_, stop_step_) {}

TrainingResult TrainingRun::run() {
  ExecutionScope scope;
  set_precision(precision_of(config_));
  execution().deterministic = config_.deterministic();
  execution().grad_enabled = true;
  start();
  for (const std::string& line : task_.describe_data()) log_.message(line);
  model_.set_training(true);
  const double seconds = config_.train().max_minutes() * 60;
  bool out_of_time = false;
  if (info_.step < stop_step_) next_batch_ = task_.open_batches(info_.epoch, info_.batch);
  while (info_.step < stop_step_ && !out_of_time) {
    step();
    out_of_time = seconds > 0 && log_.elapsed_seconds() >= seconds;
    evaluate_and_save(info_.step == stop_step_ || out_of_time);
  }
  next_batch_ = nullptr;
  log_.clear_progress();
  if (!plan_.evaluates(info_.step)) evaluate(false);
  return result_;
}

void TrainingRun::start() {
  const bool resuming = folder_.has_last();
  if (resuming && !options_.resume)
    fail_input("{}: holds a run already; give --resume to continue it, or another --output", options_.output);
  info_.config = config_text(config_);
  info_.class_names = task_.class_names();
  info_.category_ids = task_.category_ids();
  info_.seed = config_.seed();
  model_.initialize(config_.seed());
  std::optional<SafetensorsReader> file;
  if (resuming)
    resume_weights(file.emplace(folder_.last()));
  else if (!options_.init_from.empty())
    log_.message(options_.init_from + ": " +
                 init_from(options_.init_from, model_, {.reinit_heads = options_.reinit_heads}).to_string());
  {
    MemoryUseScope use(MemoryUse::kParameters);
    model_.to(options_.device);
  }
  optimizer_.emplace(model_.parameters(), optimizer_options(config_.optimizer()));
  if (config_.train().ema_decay() > 0) ema_.emplace(model_, config_.train().ema_decay());
  if (file) {
    load_training_state(*file, info_, *optimizer_, ema());
    folder_.restore_best();
    log_.message(fmt::format("resuming {} after step {}", options_.output, info_.step));
  }
  folder_.write_config(info_.config);
  log_.open(file ? info_.step : -1);
  const int64_t batches = info_.step * plan_.accumulate;
  info_.epoch = batches / plan_.batches_per_epoch;
  info_.batch = batches % plan_.batches_per_epoch;
  result_.best_metric = info_.best_metric;
  result_.best_step = info_.best_step;
  result_.step = info_.step;
}

void TrainingRun::resume_weights(const SafetensorsReader& file) {
  CheckpointInfo old = read_checkpoint_info(file);
  if (old.category_ids != info_.category_ids || old.class_names != info_.class_names)
    fail_input("{}: checkpoint of another data set: its classes differ", file.path());
  if (old.seed != info_.seed)
    fail_input("{}: the run has seed {}, the configuration {}", file.path(), old.seed, info_.seed);
  load_model(file, model_, false);
  old.config = info_.config;
  info_ = old;
}

void TrainingRun::evaluate_and_save(bool last) {
  const int64_t every = config_.train().checkpoint_every_steps();
  const bool scheduled = plan_.evaluates(info_.step);
  if (!scheduled && !last && !plan_.ends_period(info_.step, 1) && !(every > 0 && info_.step % every == 0))
    return;
  finish_pending_step();
  if (last) log_.write_step(info_.step);
  if (scheduled) evaluate(true);
  folder_.save_last(model_, info_, *optimizer_, ema());
}

// A scheduled evaluation is part of the run; another one was caused by where the run stops, and leaves no
// trace in last.safetensors, so that the resumed run is the one that never stopped.
void TrainingRun::evaluate(bool scheduled) {
  const std::vector<std::string> primary = task_.primary_metrics();
  if (primary.empty()) return;
  const double begin = log_.elapsed_seconds();
  log_.clear_progress();
  {
    EmaScope averages(ema());
    model_.set_training(false);
    {
      NoGrad no_grad;
      result_.metrics = task_.evaluate();
    }
    keep_if_best(metric_of(result_.metrics, primary.front()), scheduled);
    model_.set_training(true);
  }
  log_.write_evaluation(info_.step, result_.metrics, primary, log_.elapsed_seconds() - begin, scheduled);
}

void TrainingRun::keep_if_best(double metric, bool scheduled) {
  if (result_.best_step >= 0 && metric <= result_.best_metric) return;
  result_.best_metric = metric;
  result_.best_step = info_.step;
  CheckpointInfo info = info_;
  info.best_metric = metric;
  info.best_step = info_.step;
  info.ema_updates = ema_ ? ema_->updates() : 0;
  folder_.save_best(model_, info, scheduled);
  if (!scheduled) return;
  info_.best_metric = metric;
  info_.best_step = info_.step;
}

}  // namespace saccade
