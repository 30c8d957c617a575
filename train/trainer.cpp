#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "autograd/engine.h"
#include "core/philox.h"
#include "data/file.h"
#include "train/checkpoint.h"
#include "train/detector_input.h"
#include "train/diagnosis.h"
#include "train/options.h"
#include "train/progress.h"
#include "train/schedule.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int64_t kNoLimit = int64_t{1} << 60;

OptimizerOptions optimizer_options(const config::Optimizer& o) {
  OptimizerOptions out{o.type(),    o.learning_rate(), o.weight_decay(), o.beta1(), o.beta2(),
                       o.epsilon(), o.momentum(),      o.clip_norm(),    {}};
  for (const auto& g : o.group())
    out.groups.push_back({g.regex(), g.lr_mult(),
                          g.has_weight_decay() ? std::optional<double>(g.weight_decay()) : std::nullopt,
                          g.frozen()});
  return out;
}

ScheduleOptions schedule_options(const config::Schedule& s) {
  return {s.type(),
          s.warmup_steps(),
          {s.drop_epochs().begin(), s.drop_epochs().end()},
          s.gamma(),
          s.final_ratio()};
}

// Where the steps of a run lie. A step takes `accumulate` batches, which run on over the ends of epochs.
struct Plan {
  int64_t batches_per_epoch, accumulate;
  double eval_every_epochs;
  int64_t total_steps;  // kNoLimit when only time ends the run
  double steps_per_epoch() const {
    return static_cast<double>(batches_per_epoch) / static_cast<double>(accumulate);
  }
  // How many periods of `epochs` are complete after `step` steps.
  int64_t periods(int64_t step, double epochs) const {
    return epochs > 0
               ? static_cast<int64_t>(std::floor(static_cast<double>(step * accumulate) /
                                                     (static_cast<double>(batches_per_epoch) * epochs) +
                                                 1e-9))
               : 0;
  }
  bool ends_period(int64_t step, double epochs) const {
    return step > 0 && periods(step, epochs) > periods(step - 1, epochs);
  }
  bool evaluates(int64_t step) const { return ends_period(step, eval_every_epochs); }
};

Plan make_plan(const Config& c, int64_t batches_per_epoch) {
  const config::Train& t = c.train();
  Plan plan{batches_per_epoch, std::max<int64_t>(t.accumulate(), 1), t.eval_every_epochs(), kNoLimit};
  if (t.epochs() > 0)
    plan.total_steps =
        std::max<int64_t>(1, static_cast<int64_t>(std::ceil(t.epochs() * plan.steps_per_epoch() - 1e-9)));
  if (t.max_steps() > 0) plan.total_steps = std::min<int64_t>(plan.total_steps, t.max_steps());
  if (plan.total_steps == kNoLimit && t.max_minutes() <= 0)
    fail_input("train: one of epochs, max_steps and max_minutes must be set, or the training never ends");
  if (plan.total_steps == kNoLimit && c.schedule().type() == "cosine")
    fail_input("schedule.type: cosine needs train.epochs or train.max_steps, for its end");
  return plan;
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
  Run(const TrainerOptions& options, const TrainingTask& task);
  TrainingResult go();

 private:
  void restore_or_start();
  void step();
  [[noreturn]] void stop_nonfinite(const char* what, std::span<const Batch> suspects,
                                   const std::function<Var(const Batch&)>& loss);
  void log_step(bool force);
  void evaluate(bool scheduled);
  void save_last();
  void save_best(bool scheduled);
  std::string status() const;
  void say(const std::string& line) {
    if (!options_.quiet) progress_.message(line);
  }
  std::string checkpoint(const char* name) const {
    return (fs::path(options_.output) / "checkpoints" / name).string();
  }

  const TrainerOptions& options_;
  const TrainingTask& task_;
  const Config& config_;
  Detector& model_;
  Plan plan_;
  ScheduleOptions schedule_;
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

Run::Run(const TrainerOptions& options, const TrainingTask& task)
    : options_(options),
      task_(task),
      config_(options.config),
      model_(*task.model),
      plan_(make_plan(options.config, task.batches_per_epoch)),
      schedule_(schedule_options(options.config.schedule())) {
  SACCADE_CHECK(task.batches_per_epoch > 0, "[train] {} batches an epoch, expected at least 1",
                task.batches_per_epoch);
  check_schedule(schedule_);
  stop_step_ =
      options.stop_at_step > 0 ? std::min(options.stop_at_step, plan_.total_steps) : plan_.total_steps;
}

void Run::restore_or_start() {
  std::error_code error;
  fs::create_directories(fs::path(options_.output) / "checkpoints", error);
  if (error) fail_input("{}: cannot create the run folder: {}", options_.output, error.message());
  std::string last = checkpoint("last.safetensors");
  bool resuming = fs::exists(last);
  if (resuming && !options_.resume)
    fail_input("{}: holds a run already; give --resume to continue it, or another --output", options_.output);

  info_.config = config_text(config_);
  info_.class_names = task_.class_names;
  info_.category_ids = task_.category_ids;
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
    say(options_.init_from + ":\n" + init_from(options_.init_from, model_).to_string());
  }
  optimizer_.emplace(model_.parameters(), optimizer_options(config_.optimizer()));
  if (config_.train().ema_decay() > 0) ema_.emplace(model_, config_.train().ema_decay());
  if (file) {
    load_training_state(*file, info_, *optimizer_, ema_ ? &*ema_ : nullptr);
    // The best weights of an evaluation that only a stop caused are not those of the whole run.
    if (std::string before = checkpoint(".best_before_stop.safetensors"); fs::exists(before)) {
      fs::rename(before, checkpoint("best.safetensors"));
      fs::remove(before);  // still there when both were one file
    }
    say(fmt::format("resuming {} after step {}", options_.output, info_.step));
  }
  write_file((fs::path(options_.output) / "config.textproto").string(), info_.config);
  log_.emplace(options_.output, file ? info_.step : -1);
  int64_t batches = info_.step * plan_.accumulate;
  info_.epoch = batches / plan_.batches_per_epoch;
  info_.batch = batches % plan_.batches_per_epoch;
  result_.best_ap = info_.best_metric;
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
  std::string last = checkpoint("last.safetensors");
  std::string kept = fs::exists(last) ? fmt::format("{} keeps step {}", last,
                                                    read_checkpoint_info(SafetensorsReader(last)).step)
                                      : std::string("no checkpoint was written yet");
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
  // All batches of the step first: the losses are divided by the objects of all of them, as for one large
  // batch.
  std::vector<Batch> batches;
  int64_t objects = 0, images = 0;
  for (int64_t i = 0; i < plan_.accumulate; ++i) {
    batches.push_back(next_batch_());
    for (const Target& t : batches.back().targets) objects += static_cast<int64_t>(t.labels.size());
    images += static_cast<int64_t>(batches.back().targets.size());
  }
  lap("data_ms");
  const double divisor = std::max<double>(1, static_cast<double>(objects));
  const uint64_t key =
      mix_key(config_.seed() ^ hash_name("training step"), static_cast<uint64_t>(info_.step));
  auto norm = image_normalization(config_);
  optimizer_->zero_grad();
  execution().rng_key = key;
  execution().rng_calls = 0;
  std::vector<uint64_t> first_calls;  // where each batch's random numbers start
  auto again = [&](const Batch& batch) {
    execution().rng_calls = first_calls[static_cast<size_t>(&batch - batches.data())];
    optimizer_->zero_grad();
    return task_.loss(model_.forward(detector_input(batch, norm)), batch.targets, divisor).total;
  };
  for (const Batch& batch : batches) {
    first_calls.push_back(execution().rng_calls);
    TrainingLoss loss;
    {
      DetectorOutput output = model_.forward(detector_input(batch, norm));
      lap("forward_ms");
      loss = task_.loss(output, batch.targets, divisor);
    }
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
  std::string of = stop_step_ < kNoLimit ? fmt::format("/{}", stop_step_) : "";
  if (config_.train().max_minutes() > 0) left = std::min(left, config_.train().max_minutes() * 60 - elapsed);
  return fmt::format("step {}{}  epoch {:.2f}  loss {:.4f}  {:.1f} images/s  ETA {}  {}", info_.step, of,
                     static_cast<double>(info_.step) / plan_.steps_per_epoch(), window_.mean("loss"),
                     window_.mean("images") / std::max(window_.mean("step_ms") / 1e3, 1e-9),
                     format_duration(left), format_bytes(resident_bytes()));
}

void Run::log_step(bool force) {
  if (window_.steps() == 0) return;
  if (!options_.quiet && progress_.due()) progress_.update(status());
  if (!force && info_.step % std::max(config_.train().log_every(), 1) != 0) return;
  NamedNumbers values{{"epoch", static_cast<double>(info_.step) / plan_.steps_per_epoch()}};
  for (auto& [name, value] : window_.means())
    if (name != "images") values.emplace_back(name, value);
  values.emplace_back("images_per_second",
                      window_.mean("images") / std::max(window_.mean("step_ms") / 1e3, 1e-9));
  values.emplace_back("peak_memory_mb",
                      static_cast<double>(allocator(Device::kCpu).stats().peak_bytes) / 1e6);
  values.emplace_back("rss_mb", static_cast<double>(resident_bytes()) / 1e6);
  values.emplace_back("elapsed_s", seconds_since(start_));
  log_->record("train", info_.step, values);
  window_ = Window();
}

void Run::save_last() {
  if (std::string name = first_nonfinite(model_); !name.empty())
    fail(
        "training stopped after step {}: the model's tensor {} is not finite; the last good checkpoint is "
        "kept",
        info_.step, name);
  save_checkpoint(checkpoint("last.safetensors"), model_, info_, &*optimizer_, ema_ ? &*ema_ : nullptr);
}

void Run::save_best(bool scheduled) {
  std::string best = checkpoint("best.safetensors"), before = checkpoint(".best_before_stop.safetensors");
  if (!scheduled && fs::exists(best)) {
    std::error_code ignored;
    fs::remove(before, ignored);
    fs::create_hard_link(best, before);
  }
  CheckpointInfo info = info_;
  info.best_metric = result_.best_ap;
  info.best_step = result_.best_step;
  info.ema_updates = ema_ ? ema_->updates() : 0;
  save_checkpoint(best, model_, info);
}

// A scheduled evaluation is part of the run; another one was caused by where the run stops, and leaves no
// trace in last.safetensors, so that the resumed run is the one that never stopped.
void Run::evaluate(bool scheduled) {
  if (!task_.evaluate) return;
  auto begin = Clock::now();
  {
    EmaScope averages(ema_ ? &*ema_ : nullptr);
    model_.set_training(false);
    progress_.finish();
    {
      NoGrad no_grad;
      result_.figures = task_.evaluate(model_);
    }
    auto ap =
        std::find_if(result_.figures.begin(), result_.figures.end(), [](auto& f) { return f.first == "AP"; });
    SACCADE_CHECK(ap != result_.figures.end(), "[train] the evaluation gave no AP");
    bool better = result_.best_step < 0 || ap->second > result_.best_ap;
    if (better) {
      result_.best_ap = ap->second;
      result_.best_step = info_.step;
      save_best(scheduled);
      if (scheduled) {
        info_.best_metric = result_.best_ap;
        info_.best_step = result_.best_step;
      }
    }
    model_.set_training(true);
  }
  NamedNumbers values{{"epoch", static_cast<double>(info_.step) / plan_.steps_per_epoch()}};
  std::string line = fmt::format("evaluation after step {}:", info_.step);
  for (const auto& [name, value] : result_.figures) {
    values.emplace_back(name, value);
    if (name.starts_with("AP")) line += fmt::format(" {} {:.3f}", name, value);
  }
  values.emplace_back("seconds", seconds_since(begin));
  values.emplace_back("elapsed_s", seconds_since(start_));
  log_->record("eval", info_.step, values, !scheduled);
  say(line + fmt::format(" ({})", format_duration(seconds_since(begin))));
}

TrainingResult Run::go() {
  ExecutionScope scope;
  execution().compute = compute_dtype(config_);
  execution().grad_enabled = true;
  restore_or_start();
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
      save_last();
  }
  next_batch_ = nullptr;
  progress_.finish();
  if (!plan_.evaluates(info_.step)) evaluate(false);
  return result_;
}

}  // namespace

TrainingResult train(const TrainerOptions& options, const TrainingTask& task) {
  return Run(options, task).go();
}

}  // namespace saccade
