// One training step, from its batches to the update of the weights.
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/profile_range.h"
#include "core/tensor/allocator.h"
#include "core/tensor/error.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "train/loop/training_run.h"

namespace saccade {
namespace {

// The random numbers of an image depend on its place among the images of all ranks.
void place_samples(const Batch& batch) {
  execution().sample_first = batch.first;
  execution().samples = batch.whole > 0 ? std::ssize(batch.targets) : 0;
}

}  // namespace

void TrainingRun::step() {
  const ProfileRange range([] { return "training step"; });
  StepTimer timer(options_.device);
  PendingStep now;
  now.step = info_.step + 1;
  read_batches(now);
  timer.end_part("data_ms");
  if (!folder_begun_) {
    begin_folder();
    timer.leave_out();
  }
  optimizer_->zero_grad();
  const std::vector<Tensor> losses = backpropagate_with_room(now, timer);
  update_weights(now, losses);
  optimizer_->zero_grad();
  timer.end_part("optimizer_ms");
  const Metrics times = timer.metrics();
  now.metrics.insert(now.metrics.end(), times.begin(), times.end());
  pending_ = std::move(now);
  advance();
  if (options_.device == Device::kCpu) finish_pending_step();  // nothing to wait for
}

// Reads all batches of the step first: the losses are divided by numbers of all its images, as in one batch.
void TrainingRun::read_batches(PendingStep& now) {
  auto save = [&] {
    if (!folder_begun_) return;
    finish_pending_step();
    save_last();
  };
  std::string problem;
  for (int64_t i = 0; i < plan_.accumulate && problem.empty(); ++i) {
    try {
      now.batches.push_back(next_batch_());
    } catch (const InputError& error) {  // an unreadable file ends the run, but no finished step is lost
      if (group_.alone()) {
        save();
        throw;
      }
      problem = error.what();
      break;
    }
    for (const std::string& image : now.batches.back().bad_images) tell_skipped(image);
    now.of_batches.push_back(task_.images_of(now.batches.back()));
    now.images.add(now.of_batches.back());
  }
  if (!group_.alone()) {
    try {
      share_batches(now, problem);
    } catch (const InputError&) {
      save();
      group_.exchange("");  // waits until rank 0 has written: the first rank to end, ends all
      throw;
    }
  }
  for (Batch& batch : now.batches) batch.most_objects = now.images.most_objects();
  now.metrics.emplace_back("images", static_cast<double>(now.images.images()));
}

void TrainingRun::tell_skipped(const std::string& image) {
  if (const std::string line = skipped_.line(image); !line.empty()) log_.message(line);
}

std::vector<Tensor> TrainingRun::backpropagate_with_room(PendingStep& now, StepTimer& timer) {
  // Only for a single process: other ranks would continue, and their sums belong to the first attempt.
  if (options_.device == Device::kCpu || !group_.alone()) return backpropagate(now, timer);
  buffers_.keep();
  std::string problem;
  try {
    return backpropagate(now, timer);
  } catch (const OutOfMemory& error) {
    problem = error.what();
  }
  // The graph is gone; this frees the gradients and the driver's pool of pieces of other sizes.
  now.losses.clear();
  now.first_calls.clear();
  optimizer_->zero_grad();
  allocator(options_.device).trim();
  buffers_.restore();
  log_.message(fmt::format("step {} is repeated: {}", now.step, problem));
  return backpropagate(now, timer);
}

std::vector<Tensor> TrainingRun::backpropagate(PendingStep& now, StepTimer& timer) {
  now.rng_key = rng_key_of_step(config_, info_.step);
  execution().rng_key = now.rng_key;
  execution().rng_calls = 0;
  std::vector<Tensor> losses;
  for (const Batch& batch : now.batches) {
    place_samples(batch);
    now.first_calls.push_back(execution().rng_calls);
    std::optional<MemoryUseScope> use(MemoryUse::kForward);
    TrainingLoss loss = task_.loss(batch, now.images, [&] { timer.end_part("forward_ms"); });
    std::vector<Tensor> scalars{loss.total.value()};
    std::vector<std::string> names{"loss"};
    for (const auto& [name, part] : loss.parts) {
      scalars.push_back(part);
      names.push_back("loss_" + name);
    }
    losses.push_back(Tensor::empty({static_cast<int64_t>(scalars.size())}, DType::kF32, loss.total.device()));
    kernels::stack_scalars(losses.back(), scalars);
    now.losses.push_back(
        {std::move(names), sum_ ? HostCopy() : HostCopy(losses.back()), std::move(loss.metrics)});
    timer.end_part("criterion_ms");
    // The matching has waited for the GPU, so the numbers of the previous step have arrived.
    finish_pending_step();
    use.emplace(MemoryUse::kBackward);
    if (sum_ && &batch == &now.batches.back())
      sum_->backward_and_start(loss.total);
    else
      backward(loss.total);
    timer.end_part("backward_ms");
  }
  if (sum_) {
    share_losses(now, losses);
    timer.end_part("ranks_ms");
  }
  return losses;
}

void TrainingRun::update_weights(PendingStep& now, std::span<const Tensor> losses) {
  const ProfileRange range([] { return "optimizer"; });
  const double factor =
      learning_rate_factor(schedule_, info_.step, plan_.steps_per_epoch(), plan_.total_steps);
  now.gradient_norm = optimizer_->step(factor, losses, ema());
  now.metrics.emplace_back("learning_rate", optimizer_->learning_rate() * factor);
  std::set<std::string> named;  // of two groups with the same regex the first applies
  for (const config::ParameterGroup& group : config_.optimizer().group())
    if (named.insert(group.regex()).second && !group.frozen() && group.lr_mult() != 1)
      now.metrics.emplace_back("learning_rate/" + group.regex(),
                               optimizer_->learning_rate() * factor * group.lr_mult());
}

void TrainingRun::advance() {
  ++info_.step;
  info_.batch += plan_.accumulate;
  info_.epoch += info_.batch / plan_.batches_per_epoch;
  info_.batch %= plan_.batches_per_epoch;
  result_.step = info_.step;
}

void TrainingRun::finish_pending_step() {
  if (!pending_) return;
  PendingStep s = std::move(*pending_);
  pending_.reset();
  Metrics metrics;
  MeanMetrics means;
  std::vector<size_t> all;
  for (size_t i = 0; i < s.batches.size(); ++i) {
    all.push_back(i);
    const PendingStep::Loss& loss = s.losses[i];
    const float* values = loss.values.data<float>();
    if (!std::isfinite(values[0])) fail_nonfinite("loss", s, {&i, 1});
    for (size_t k = 0; k < loss.names.size(); ++k) add_to(metrics, loss.names[k], values[k]);
    for (const MeanMetric& mean : loss.metrics()) add_to(means, mean);
  }
  const double norm = *s.gradient_norm.data<double>();
  if (!std::isfinite(norm)) fail_nonfinite("gradient", s, all);
  if (!group_.alone()) share_means(means);
  for (const MeanMetric& mean : means) metrics.emplace_back(mean.name, mean.value());
  metrics.emplace_back("gradient_norm", norm);
  metrics.insert(metrics.end(), s.metrics.begin(), s.metrics.end());
  log_.add_step(s.step, metrics);
  step_metrics_ = std::move(metrics);
}

void TrainingRun::fail_nonfinite(const char* what, PendingStep& s, std::span<const size_t> suspects) {
  std::string finding;
  const Batch* batch = nullptr;
  std::optional<AloneScope> alone(std::in_place);
  execution().rng_key = s.rng_key;
  for (size_t i : suspects) {
    batch = &s.batches[i];
    place_samples(*batch);
    finding = diagnose_nonfinite(model_, [&] {
      execution().rng_calls = s.first_calls[i];
      optimizer_->zero_grad();
      return task_.loss(*batch, s.images, [] {});
    });
    if (!finding.empty()) break;
  }
  alone.reset();
  if (!finding.empty()) finding = fmt::format("{}; first bad: {}", images_of(*batch), finding);
  finding = first_finding(finding);
  if (finding.empty())
    finding = fmt::format(
        "{}; first bad: nothing when the step is repeated, so only a sum over the step's batches overflows",
        images_of(*batch));
  const std::string kept = fmt::format("{} keeps step {}", folder_.last(),
                                       read_checkpoint_info(SafetensorsReader(folder_.last())).step);
  log_.clear_progress();
  fail("training stopped at step {}: the {} is not finite; {}; batch {} of epoch {}: {}; {}", s.step, what,
       remedy_of_divergence(config_), batch->index, batch->epoch, finding, kept);
}

}  // namespace saccade
