#include "train/loop/training_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/optimizers/schedule.h"

namespace saccade {

bool TrainingLog::open(int64_t resume_step) {
  if (!writes_) return false;
  files_.emplace(options_.output, resume_step);
  for (const std::string& note : files_->notes()) message(note);
  return files_->dropped_evaluation();
}

void TrainingLog::message(const std::string& line) {
  if (prints()) progress_.message(line);
}

double TrainingLog::images_per_second() const {
  return averages_.mean("images") / std::max(averages_.mean("step_ms") / 1e3, 1e-9);
}

std::string TrainingLog::status(int64_t step) const {
  const double minutes = options_.config.train().max_minutes();
  std::string parts;  // of the last decoder layer, or of the whole model
  for (const auto& [name, value] : averages_.means())
    if (name.starts_with("loss_") && name.find('_', 5) == std::string::npos)
      parts += fmt::format("{}{} {:.3f}", parts.empty() ? " (" : ", ", name.substr(5), value);
  if (!parts.empty()) parts += ")";
  // The time that the step waited for the loader.
  const double waiting = averages_.mean("data_ms") / std::max(averages_.mean("step_ms"), 1e-9);
  double left = static_cast<double>(stop_step_ - step) * step_seconds_;
  if (minutes > 0) left = std::min(left, minutes * 60 - elapsed_seconds());
  return fmt::format("step {}{}  epoch {:.2f}  loss {:.4f}{}  {:.1f} images/s  waiting {:.0f} %  ETA {}  {}",
                     step, stop_step_ < TrainingPlan::kNoLimit ? fmt::format("/{}", stop_step_) : "",
                     plan_.epochs_after(step), averages_.mean("loss"), parts, images_per_second(),
                     100 * waiting, format_duration(left), format_bytes(resident_bytes()));
}

void TrainingLog::add_step(int64_t step, const Metrics& metrics) {
  averages_.add_step(metrics);
  const double seconds = metric_of(metrics, "step_ms") / 1e3;
  step_seconds_ = step_seconds_ == 0 ? seconds : 0.95 * step_seconds_ + 0.05 * seconds;
  if (prints() && progress_.due()) progress_.update(status(step));
  if (step % std::max(options_.config.train().log_every(), 1) == 0) write_step(step);
}

void TrainingLog::write_step(int64_t step) {
  if (averages_.steps() == 0) return;
  Metrics line{{"epoch", plan_.epochs_after(step)}};
  for (auto& [name, value] : averages_.means())
    if (name != "images") line.emplace_back(name, value);
  line.insert(line.end(),
              {{"images_per_second", images_per_second()},
               {"peak_memory_mb", static_cast<double>(allocator(options_.device).stats().peak_bytes) / 1e6},
               {"rss_mb", static_cast<double>(resident_bytes()) / 1e6},
               {"elapsed_s", elapsed_seconds()}});
  if (files_) files_->record("train", step, line);
  averages_ = MetricAverager();
}

void TrainingLog::write_evaluation(int64_t step, const Metrics& metrics,
                                   const std::vector<std::string>& primary, double seconds, bool scheduled) {
  Metrics line{{"epoch", plan_.epochs_after(step)}};
  line.insert(line.end(), metrics.begin(), metrics.end());
  line.insert(line.end(), {{"seconds", seconds}, {"elapsed_s", elapsed_seconds()}});
  if (files_) files_->record("eval", step, line, !scheduled);
  std::string text = fmt::format("evaluation after step {}:", step);
  for (const std::string& name : primary) text += fmt::format(" {} {:.3f}", name, metric_of(metrics, name));
  message(text + fmt::format(" ({})", format_duration(seconds)));
}

void TrainingLog::write_pictures(int64_t step, const std::vector<std::pair<std::string, Image>>& pictures) {
  if (!files_) return;
  std::vector<EventPicture> encoded;
  for (const auto& [name, image] : pictures)
    encoded.push_back({"eval/" + name, image.height, image.width, encode_jpeg(image, 80)});
  files_->pictures(step, encoded);
}

bool TrainingPlan::ends_period(int64_t step, double epochs) const {
  // The number of periods that are complete after `after` steps.
  auto periods = [&](int64_t after) {
    double batches = static_cast<double>(after * accumulate);
    return std::floor(batches / (static_cast<double>(batches_per_epoch) * epochs) + 1e-9);
  };
  return epochs > 0 && step > 0 && periods(step) > periods(step - 1);
}

TrainingPlan make_plan(const Config& c, int64_t batches_per_epoch) {
  SACCADE_CHECK(batches_per_epoch > 0, "[train] {} batches an epoch, expected at least 1", batches_per_epoch);
  const config::Train& t = c.train();
  TrainingPlan plan{batches_per_epoch, std::max<int64_t>(t.accumulate(), 1), t.eval_every_epochs()};
  if (t.epochs() > 0)
    plan.total_steps =
        std::max<int64_t>(1, static_cast<int64_t>(std::ceil(t.epochs() * plan.steps_per_epoch() - 1e-9)));
  if (t.max_steps() > 0) plan.total_steps = std::min<int64_t>(plan.total_steps, t.max_steps());
  if (plan.total_steps == TrainingPlan::kNoLimit && t.max_minutes() <= 0)
    fail_input("train: one of epochs, max_steps and max_minutes must be set, or the training never ends");
  if (plan.total_steps == TrainingPlan::kNoLimit &&
      schedules().find(c.schedule().type(), "schedule.type").needs_end)
    fail_input("schedule.type: {} needs train.epochs or train.max_steps to know its end",
               c.schedule().type());
  return plan;
}

std::vector<std::string> warnings_on_length(const Config& config, const TrainingPlan& plan,
                                            int64_t stop_at_step) {
  std::vector<std::string> lines;
  if (plan.total_steps == TrainingPlan::kNoLimit) return lines;
  if (stop_at_step > plan.total_steps)
    lines.push_back(fmt::format("note: --max-steps {}: changes nothing, the run ends after step {}",
                                stop_at_step, plan.total_steps));
  const config::Schedule& schedule = config.schedule();
  const int64_t warmup = warmup_steps(schedule, plan.steps_per_epoch());
  if (warmup > plan.total_steps)
    lines.push_back(fmt::format(
        "warning: the warm-up of {} (schedule.{}) is longer than the run of {}; the learning rate never reaches {:g}",
        count_of(warmup, "step", "steps"), schedule.warmup_epochs() > 0 ? "warmup_epochs" : "warmup_steps",
        count_of(plan.total_steps, "step", "steps"), config.optimizer().learning_rate()));
  const double epochs = plan.epochs_after(plan.total_steps);
  if (schedule.type() == "step" && schedule.drop_epochs_size() > 0 && schedule.drop_epochs(0) >= epochs)
    lines.push_back(fmt::format(
        "note: schedule.drop_epochs: the run ends after epoch {:.4g}, so the learning rate never drops",
        epochs));
  const int start = config.data().augment().strong_start_epoch();
  if (start > 0 && start >= epochs)
    lines.push_back(fmt::format(
        "note: data.augment.strong_start_epoch: {}, but the run ends after epoch {:.4g}, without strong augmentation",
        start, epochs));
  return lines;
}

}  // namespace saccade
