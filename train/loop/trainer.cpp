#include "train/loop/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "autograd/engine.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/gpu.h"
#include "core/runtime/host_copy.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "train/checkpoints/init_from.h"
#include "train/checkpoints/run_folder.h"
#include "train/config/options.h"
#include "train/logs/progress.h"
#include "train/loop/diagnosis.h"
#include "train/loop/plan.h"
#include "train/optimizers/schedule.h"

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

// A step whose work was given to the device and whose numbers nobody has looked at yet. A gradient or loss
// that is not finite changed nothing there (see core/kernels/optimizer/optimizer.h), so on a GPU it is early enough to look
// during the next step, when the numbers have arrived without waiting.
struct StepInFlight {
  struct Loss {  // of one batch
    std::vector<std::string> names;
    HostCopy values;
    std::function<Metrics()> metrics;
  };
  int64_t step = 0;
  // For the diagnosis: the batches, and where each one's random numbers start.
  std::vector<Batch> batches;
  std::vector<uint64_t> first_calls;
  uint64_t rng_key = 0;
  double divisor = 1;
  std::vector<Loss> losses;
  HostCopy gradient_norm;
  Metrics numbers;  // for the log
};

class Run {
 public:
  Run(const TrainerOptions& options, TrainingTask& task);
  TrainingResult go();

 private:
  void restore_or_start();
  void step();
  // Looks at the numbers of the step in flight, if there is one: waits for them, stops the run when one is
  // not finite, and logs them.
  void settle();
  // `suspects`: positions among the step's batches.
  [[noreturn]] void stop_nonfinite(const char* what, StepInFlight& s, std::span<const size_t> suspects);
  void log_step(int64_t step, bool force);
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
  std::optional<StepInFlight> in_flight_;
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
  {
    MemoryUseScope use(MemoryUse::kParameters);
    model_.to(options_.device);
  }
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

void Run::stop_nonfinite(const char* what, StepInFlight& s, std::span<const size_t> suspects) {
  std::string finding;
  const Batch* batch = nullptr;
  execution().rng_key = s.rng_key;
  for (size_t i : suspects) {
    batch = &s.batches[i];
    finding = diagnose_nonfinite(model_, [&] {
      execution().rng_calls = s.first_calls[i];
      optimizer_->zero_grad();
      return task_.loss(*batch, s.divisor, [] {}).total;
    });
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
       s.step, what, batch->index, batch->epoch, images_of(*batch), finding, kept);
}

void Run::settle() {
  if (!in_flight_) return;
  StepInFlight s = std::move(*in_flight_);
  in_flight_.reset();
  std::vector<size_t> all;
  for (size_t i = 0; i < s.batches.size(); ++i) {
    all.push_back(i);
    const StepInFlight::Loss& loss = s.losses[i];
    const float* values = loss.values.data<float>();
    if (!std::isfinite(values[0])) stop_nonfinite("loss", s, {&i, 1});
    for (size_t k = 0; k < loss.names.size(); ++k) window_.add(loss.names[k], values[k]);
    for (const auto& [name, metric] : loss.metrics()) window_.add(name, metric);
  }
  const double norm = *s.gradient_norm.data<double>();
  if (!std::isfinite(norm)) stop_nonfinite("gradient", s, all);
  window_.add("gradient_norm", norm);
  for (const auto& [name, value] : s.numbers) window_.add(name, value);
  window_.step();
  log_step(s.step, false);
}

void Run::step() {
  auto begin = Clock::now();
  auto lap_start = begin;
  StepInFlight now;
  auto lap = [&](const char* name) {
    auto time = Clock::now();
    now.numbers.emplace_back(name, std::chrono::duration<double, std::milli>(time - lap_start).count());
    lap_start = time;
  };
  const CudaStatistics before = cuda_statistics();
  const int64_t requests = allocator(options_.device).stats().requests;
  // All batches of the step first: the losses are divided by the weight of all of them, as for one large
  // batch.
  double weight = 0;
  int64_t images = 0;
  for (int64_t i = 0; i < plan_.accumulate; ++i) {
    now.batches.push_back(next_batch_());
    weight += task_.loss_normalizer(now.batches.back());
    images += static_cast<int64_t>(now.batches.back().targets.size());
  }
  lap("data_ms");
  now.step = info_.step + 1;
  now.divisor = std::max(1.0, weight);
  now.rng_key = mix_key(config_.seed() ^ hash_name("training step"), static_cast<uint64_t>(info_.step));
  optimizer_->zero_grad();
  execution().rng_key = now.rng_key;
  execution().rng_calls = 0;
  std::vector<Tensor> losses;
  for (const Batch& batch : now.batches) {
    now.first_calls.push_back(execution().rng_calls);
    std::optional<MemoryUseScope> use(MemoryUse::kForward);
    TrainingLoss loss = task_.loss(batch, now.divisor, [&] { lap("forward_ms"); });
    std::vector<Tensor> scalars{loss.total.value()};
    std::vector<std::string> names{"loss"};
    for (const auto& [name, part] : loss.parts) {
      scalars.push_back(part);
      names.push_back("loss_" + name);
    }
    losses.push_back(Tensor::empty({static_cast<int64_t>(scalars.size())}, DType::kF32, loss.total.device()));
    kernels::stack_scalars(losses.back(), scalars);
    now.losses.push_back({std::move(names), HostCopy(losses.back()), std::move(loss.metrics)});
    lap("criterion_ms");
    // The matching has waited for the GPU, so the numbers of the step before are there.
    settle();
    use.emplace(MemoryUse::kBackward);
    backward(loss.total);
    lap("backward_ms");
  }
  double factor = learning_rate_factor(schedule_, info_.step, plan_.steps_per_epoch(), plan_.total_steps);
  now.gradient_norm = optimizer_->step(factor, losses, ema_ ? &*ema_ : nullptr);
  optimizer_->zero_grad();
  lap("optimizer_ms");
  double took = seconds_since(begin);
  now.numbers.insert(now.numbers.end(), {{"learning_rate", optimizer_->learning_rate() * factor},
                                         {"images", static_cast<double>(images)},
                                         {"step_ms", took * 1e3}});
  if (options_.device == Device::kCuda) {
    const CudaStatistics after = cuda_statistics();
    auto count = [&](const char* name, int64_t n) { now.numbers.emplace_back(name, static_cast<double>(n)); };
    count("launches", after.launches - before.launches);
    count("host_syncs", after.host_syncs - before.host_syncs);
    count("allocations", allocator(options_.device).stats().requests - requests);
  }
  in_flight_ = std::move(now);
  step_seconds_ = step_seconds_ == 0 ? took : 0.95 * step_seconds_ + 0.05 * took;
  ++info_.step;
  info_.batch += plan_.accumulate;
  info_.epoch += info_.batch / plan_.batches_per_epoch;
  info_.batch %= plan_.batches_per_epoch;
  result_.step = info_.step;
  if (options_.device == Device::kCpu) settle();  // nothing to wait for
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

void Run::log_step(int64_t step, bool force) {
  if (window_.steps() == 0) return;
  if (!options_.quiet && progress_.due()) progress_.update(status());
  if (!force && step % std::max(config_.train().log_every(), 1) != 0) return;
  Metrics values{{"epoch", plan_.epochs_after(step)}};
  for (auto& [name, value] : window_.means())
    if (name != "images") values.emplace_back(name, value);
  values.emplace_back("images_per_second",
                      window_.mean("images") / std::max(window_.mean("step_ms") / 1e3, 1e-9));
  values.emplace_back("peak_memory_mb",
                      static_cast<double>(allocator(options_.device).stats().peak_bytes) / 1e6);
  values.emplace_back("rss_mb", static_cast<double>(resident_bytes()) / 1e6);
  values.emplace_back("elapsed_s", seconds_since(start_));
  log_->record("train", step, values);
  window_ = Window();
}

double value_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  fail("[train] the evaluation gave no {}", name);
}

// A scheduled evaluation is part of the run; another one was caused by where the run stops, and leaves no
// trace in last.safetensors, so that the resumed run is the one that never stopped.
void Run::evaluate(bool scheduled) {
  const std::vector<std::string> primary = task_.primary_metrics();
  if (primary.empty()) return;
  auto begin = Clock::now();
  {
    EmaScope averages(ema_ ? &*ema_ : nullptr);
    model_.set_training(false);
    progress_.finish();
    {
      NoGrad no_grad;
      result_.metrics = task_.evaluate();
    }
    const double metric = value_of(result_.metrics, primary.front());
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
  Metrics values{{"epoch", plan_.epochs_after(info_.step)}};
  std::string line = fmt::format("evaluation after step {}:", info_.step);
  for (const auto& [name, value] : result_.metrics) values.emplace_back(name, value);
  for (const std::string& name : primary)
    line += fmt::format(" {} {:.3f}", name, value_of(result_.metrics, name));
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
  for (const std::string& note : task_.describe_data()) say(note);
  model_.set_training(true);
  const config::Train& t = config_.train();
  bool out_of_time = false;
  if (info_.step < stop_step_) next_batch_ = task_.open_batches(info_.epoch, info_.batch);
  while (info_.step < stop_step_ && !out_of_time) {
    step();
    out_of_time = t.max_minutes() > 0 && seconds_since(start_) >= t.max_minutes() * 60;
    const bool last = info_.step == stop_step_ || out_of_time;
    const bool scheduled = plan_.evaluates(info_.step);
    const bool every = t.checkpoint_every_steps() > 0 && info_.step % t.checkpoint_every_steps() == 0;
    const bool saves = scheduled || every || plan_.ends_period(info_.step, 1) || last;
    if (saves) settle();
    if (last) log_step(info_.step, true);
    if (scheduled) evaluate(true);
    if (saves) folder_->save_last(model_, info_, *optimizer_, ema_ ? &*ema_ : nullptr);
  }
  next_batch_ = nullptr;
  progress_.finish();
  if (!plan_.evaluates(info_.step)) evaluate(false);
  return result_;
}

}  // namespace

TrainingResult train(const TrainerOptions& options, TrainingTask& task) { return Run(options, task).go(); }

}  // namespace saccade
