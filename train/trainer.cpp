#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "autograd/engine.h"
#include "core/philox.h"
#include "train/diagnosis.h"
#include "train/init_from.h"
#include "train/options.h"
#include "train/plan.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/schedule.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sums between two log lines.
class Window {
 public:
  void add(const std::string& name, double value) {
    if (!sums_.contains(name)) names_.push_back(name);
    sums_[name] += value;
  }
  void step() { ++steps_; }
  int64_t steps() const { return steps_; }
  double mean(const std::string& name) const {
    auto it = sums_.find(name);
    return it == sums_.end() || steps_ == 0 ? 0 : it->second / static_cast<double>(steps_);
  }
  NamedNumbers means() const {
    NamedNumbers out;
    for (const std::string& n : names_) out.emplace_back(n, mean(n));
    return out;
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, double> sums_;
  int64_t steps_ = 0;
};

class Run {
 public:
  Run(const TrainerOptions& options, TrainingTask& task);
  TrainingResult go();

 private:
  void restore_or_start();
  void step();
  [[noreturn]] void stop_nonfinite(const char* what, std::span<const Batch> suspects,
                                   const std::function<Var(const Batch&)>& loss);
  void log_step(bool force);
  void evaluate(bool scheduled);
  std::string status() const;
  void say(const std::string& line) {
    if (!options_.quiet) progress_.message(line);
  }

  const TrainerOptions& options_;
  TrainingTask& task_;
  const Config& config_;
  Module& model_;
  Plan plan_;
  ScheduleOptions schedule_;
  std::optional<RunFolder> folder_;
  std::optional<Optimizer> optimizer_;
  std::optional<Ema> ema_;
  std::optional<RunLog> log_;
  Progress progress_;
  std::function<Batch()> next_batch_;
  CheckpointInfo info_;
  int64_t stop_step_ = 0;
  Window window_;
  TrainingResult result_;
  Clock::time_point start_ = Clock::now();
  double step_seconds_ = 0;  // running mean, for the ETA
};

Run::Run(const TrainerOptions& options, TrainingTask& task)
    : options_(options),
      task_(task),
      config_(options.config),
      model_(task.model()),
      plan_(make_plan(options.config, task.batches_per_epoch())),
      schedule_(schedule_options(options.config.schedule())) {
  check_schedule(schedule_);
  stop_step_ =
      options.stop_at_step > 0 ? std::min(options.stop_at_step, plan_.total_steps) : plan_.total_steps;
}

void Run::restore_or_start() {
  folder_.emplace(options_.output);
  const std::string last = folder_->last();
  const bool resuming = folder_->has_last();
  if (resuming && !options_.resume)
    fail_input("{}: holds a run already; give --resume to continue it, or another --output", options_.output);

  info_.config = config_text(config_);
  info_.class_names = task_.class_names();
  info_.category_ids = task_.category_ids();
  info_.seed = config_.seed();
  model_.initialize(config_.seed());
  std::optional<SafetensorsReader> file;
  if (resuming) {
    file.emplace(last);
    CheckpointInfo old = read_checkpoint_info(*file);
    if (old.category_ids != info_.category_ids || old.class_names != info_.class_names)
      fail_input("{}: checkpoint of another data set: its classes differ", last);
    if (old.seed != info_.seed)
      fail_input("{}: the run has seed {}, the configuration {}", last, old.seed, info_.seed);
    load_model(*file, model_, false);
    old.config = info_.config;
    info_ = old;
  } else if (!options_.init_from.empty()) {
    say(options_.init_from + ": " +
        init_from(options_.init_from, model_, {.reinit_heads = options_.reinit_heads}).to_string());
  }
  model_.to(options_.device);
  optimizer_.emplace(model_.parameters(), optimizer_options(config_.optimizer()));
  if (config_.train().ema_decay() > 0) ema_.emplace(model_, config_.train().ema_decay());
  if (file) {
    load_training_state(*file, info_, *optimizer_, ema_ ? &*ema_ : nullptr);
    folder_->restore_best();
    say(fmt::format("resuming {} after step {}", options_.output, info_.step));
  }
  folder_->write_config(info_.config);
  log_.emplace(options_.output, file ? info_.step : -1);
  int64_t batches = info_.step * plan_.accumulate;
  info_.epoch = batches / plan_.batches_per_epoch;
  info_.batch = batches % plan_.batches_per_epoch;
  result_.best_metric = info_.best_metric;
  result_.best_step = info_.best_step;
  result_.step = info_.step;
}

void Run::stop_nonfinite(const char* what, std::span<const Batch> suspects,
                         const std::function<Var(const Batch&)>& loss) {
  std::string finding;
  const Batch* batch = nullptr;
  for (const Batch& suspect : suspects) {
    batch = &suspect;
    finding = diagnose_nonfinite(model_, [&] { return loss(suspect); });
    if (!finding.empty()) break;
  }
  if (finding.empty())
    finding = "nothing when the step is repeated, so only a sum over the step's batches overflows";
  std::string kept = "no checkpoint was written yet";
  if (folder_->has_last())
    kept = fmt::format("{} keeps step {}", folder_->last(),
                       read_checkpoint_info(SafetensorsReader(folder_->last())).step);
  progress_.finish();
  fail("training stopped at step {}: the {} is not finite; batch {} of epoch {}: {}; first bad: {}; {}",
       info_.step + 1, what, batch->index, batch->epoch, images_of(*batch), finding, kept);
}

void Run::step() {
  auto begin = Clock::now();
  auto lap_start = begin;
  auto lap = [&](const char* name) {
    auto now = Clock::now();
    window_.add(name, std::chrono::duration<double, std::milli>(now - lap_start).count());
    lap_start = now;
  };
  // All batches of the step first: the losses are divided by the weight of all of them, as for one large
  // batch.
  std::vector<Batch> batches;
  double weight = 0;
  int64_t images = 0;
  for (int64_t i = 0; i < plan_.accumulate; ++i) {
    batches.push_back(next_batch_());
    weight += task_.weight(batches.back());
    images += static_cast<int64_t>(batches.back().targets.size());
  }
  lap("data_ms");
  const double divisor = std::max(1.0, weight);
  const uint64_t key =
      mix_key(config_.seed() ^ hash_name("training step"), static_cast<uint64_t>(info_.step));
  optimizer_->zero_grad();
  execution().rng_key = key;
  execution().rng_calls = 0;
  std::vector<uint64_t> first_calls;  // where each batch's random numbers start
  auto again = [&](const Batch& batch) {
    execution().rng_calls = first_calls[static_cast<size_t>(&batch - batches.data())];
    optimizer_->zero_grad();
    return task_.loss(batch, divisor, [] {}).total;
  };
  for (const Batch& batch : batches) {
    first_calls.push_back(execution().rng_calls);
    TrainingLoss loss = task_.loss(batch, divisor, [&] { lap("forward_ms"); });
    double value = loss.total.value().item();
    lap("criterion_ms");
    if (!std::isfinite(value)) stop_nonfinite("loss", {&batch, 1}, again);
    window_.add("loss", value);
    for (const auto& [name, part] : loss.parts) window_.add("loss_" + name, part);
    for (const auto& [name, figure] : loss.figures) window_.add(name, figure);
    backward(loss.total);
    lap("backward_ms");
  }
  double factor = learning_rate_factor(schedule_, info_.step, plan_.steps_per_epoch(), plan_.total_steps);
  double gradient_norm = optimizer_->step(factor);
  if (!std::isfinite(gradient_norm)) stop_nonfinite("gradient", batches, again);
  optimizer_->zero_grad();
  if (ema_) ema_->update();
  lap("optimizer_ms");
  window_.add("gradient_norm", gradient_norm);
  window_.add("learning_rate", optimizer_->learning_rate() * factor);
  window_.add("images", static_cast<double>(images));
  double took = seconds_since(begin);
  window_.add("step_ms", took * 1e3);
  window_.step();
  step_seconds_ = step_seconds_ == 0 ? took : 0.95 * step_seconds_ + 0.05 * took;
  ++info_.step;
  info_.batch += plan_.accumulate;
  info_.epoch += info_.batch / plan_.batches_per_epoch;
  info_.batch %= plan_.batches_per_epoch;
  result_.step = info_.step;
}

std::string Run::status() const {
  double elapsed = seconds_since(start_), left = static_cast<double>(stop_step_ - info_.step) * step_seconds_;
  std::string of = stop_step_ < Plan::kNoLimit ? fmt::format("/{}", stop_step_) : "";
  if (config_.train().max_minutes() > 0) left = std::min(left, config_.train().max_minutes() * 60 - elapsed);
  return fmt::format("step {}{}  epoch {:.2f}  loss {:.4f}  {:.1f} images/s  ETA {}  {}", info_.step, of,
                     plan_.epochs_after(info_.step), window_.mean("loss"),
                     window_.mean("images") / std::max(window_.mean("step_ms") / 1e3, 1e-9),
                     format_duration(left), format_bytes(resident_bytes()));
}

void Run::log_step(bool force) {
  if (window_.steps() == 0) return;
  if (!options_.quiet && progress_.due()) progress_.update(status());
  if (!force && info_.step % std::max(config_.train().log_every(), 1) != 0) return;
  NamedNumbers values{{"epoch", plan_.epochs_after(info_.step)}};
  for (auto& [name, value] : window_.means())
    if (name != "images") values.emplace_back(name, value);
  values.emplace_back("images_per_second",
                      window_.mean("images") / std::max(window_.mean("step_ms") / 1e3, 1e-9));
  values.emplace_back("peak_memory_mb",
                      static_cast<double>(allocator(options_.device).stats().peak_bytes) / 1e6);
  values.emplace_back("rss_mb", static_cast<double>(resident_bytes()) / 1e6);
  values.emplace_back("elapsed_s", seconds_since(start_));
  log_->record("train", info_.step, values);
  window_ = Window();
}

double figure(const NamedNumbers& figures, const std::string& name) {
  for (const auto& [key, value] : figures)
    if (key == name) return value;
  fail("[train] the evaluation gave no {}", name);
}

// A scheduled evaluation is part of the run; another one was caused by where the run stops, and leaves no
// trace in last.safetensors, so that the resumed run is the one that never stopped.
void Run::evaluate(bool scheduled) {
  const std::vector<std::string> headline = task_.headline();
  if (headline.empty()) return;
  auto begin = Clock::now();
  {
    EmaScope averages(ema_ ? &*ema_ : nullptr);
    model_.set_training(false);
    progress_.finish();
    {
      NoGrad no_grad;
      result_.figures = task_.evaluate();
    }
    const double metric = figure(result_.figures, headline.front());
    if (result_.best_step < 0 || metric > result_.best_metric) {
      result_.best_metric = metric;
      result_.best_step = info_.step;
      CheckpointInfo info = info_;
      info.best_metric = metric;
      info.best_step = info_.step;
      info.ema_updates = ema_ ? ema_->updates() : 0;
      folder_->save_best(model_, info, scheduled);
      if (scheduled) {
        info_.best_metric = result_.best_metric;
        info_.best_step = result_.best_step;
      }
    }
    model_.set_training(true);
  }
  NamedNumbers values{{"epoch", plan_.epochs_after(info_.step)}};
  std::string line = fmt::format("evaluation after step {}:", info_.step);
  for (const auto& [name, value] : result_.figures) values.emplace_back(name, value);
  for (const std::string& name : headline)
    line += fmt::format(" {} {:.3f}", name, figure(result_.figures, name));
  values.emplace_back("seconds", seconds_since(begin));
  values.emplace_back("elapsed_s", seconds_since(start_));
  log_->record("eval", info_.step, values, !scheduled);
  say(line + fmt::format(" ({})", format_duration(seconds_since(begin))));
}

TrainingResult Run::go() {
  ExecutionScope scope;
  set_precision(precision_of(config_));
  execution().deterministic = config_.deterministic();
  execution().grad_enabled = true;
  restore_or_start();
  for (const std::string& note : task_.notes()) say(note);
  model_.set_training(true);
  const config::Train& t = config_.train();
  bool out_of_time = false;
  if (info_.step < stop_step_) next_batch_ = task_.open_batches(info_.epoch, info_.batch);
  while (info_.step < stop_step_ && !out_of_time) {
    step();
    out_of_time = t.max_minutes() > 0 && seconds_since(start_) >= t.max_minutes() * 60;
    log_step(info_.step == stop_step_ || out_of_time);
    bool scheduled = plan_.evaluates(info_.step);
    if (scheduled) evaluate(true);
    bool every = t.checkpoint_every_steps() > 0 && info_.step % t.checkpoint_every_steps() == 0;
    if (scheduled || every || plan_.ends_period(info_.step, 1) || info_.step == stop_step_ || out_of_time)
      folder_->save_last(model_, info_, *optimizer_, ema_ ? &*ema_ : nullptr);
  }
  next_batch_ = nullptr;
  progress_.finish();
  if (!plan_.evaluates(info_.step)) evaluate(false);
  return result_;
}

}  // namespace

TrainingResult train(const TrainerOptions& options, TrainingTask& task) { return Run(options, task).go(); }

}  // namespace saccade
