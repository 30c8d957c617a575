// The step of the largest batch, which a run tries before its first step.
#include <fmt/format.h>

#include <chrono>

#include "autograd/engine.h"
#include "core/files/text.h"
#include "core/runtime/host_copy.h"
#include "core/tensor/error.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"
#include "train/loop/training_run.h"

namespace saccade {
namespace {

constexpr int64_t kLongRun = 500;  // batches of a run on a CPU after which one or two more hardly matter

bool is_wanted(TrialBatch trial, Device device, int64_t batches) {
  if (trial == TrialBatch::kAuto) return device == Device::kCuda || batches >= kLongRun;
  return trial == TrialBatch::kOn;
}

}  // namespace

void TrainingRun::try_largest_batch() {
  constexpr double kSlow = 5;  // seconds: the first step includes the set-up, so a fast one is timed again
  const int64_t batches = (stop_step_ - info_.step) * plan_.accumulate;
  if (!is_wanted(options_.trial_batch, options_.device, batches)) return;
  std::optional<Batch> batch = task_.largest_batch();
  if (!batch) return;
  const AloneScope alone;
  if (const int64_t part = ceil_div(batch->images.dim(0), group_.size()); part < batch->images.dim(0)) {
    batch->images = batch->images.slice(0, 0, part).contiguous();
    batch->targets.resize(static_cast<size_t>(part));
  }
  const Tensor& images = batch->images;
  const std::string name =
      fmt::format("{} of {} x {}", count_of(images.dim(0), "image", "images"), images.dim(1), images.dim(2));
  ExecutionScope scope;
  buffers_.keep();
  double seconds = 0;
  try {
    for (int i = 0; i < 2 && seconds < kSlow; ++i) {
      const auto start = std::chrono::steady_clock::now();
      std::optional<MemoryUseScope> use(MemoryUse::kForward);
      const TrainingLoss loss = task_.loss(*batch, task_.images_of(*batch), [] {});
      use.emplace(MemoryUse::kBackward);
      backward(loss.total);
      HostCopy(loss.total.value()).data<float>();  // waits for the GPU
      optimizer_->zero_grad();
      seconds = seconds_since(start);
    }
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("the largest batch ({}) does not fit: {}", name, error.what()));
  }
  buffers_.restore();
  std::string line = fmt::format("the largest batch, {}, takes {:.3g} s and {}", name, seconds,
                                 format_bytes(allocator(options_.device).stats().peak_bytes));
  if (stop_step_ < TrainingPlan::kNoLimit)
    line += fmt::format("; the forward and backward passes of {} take about {}",
                        count_of(stop_step_ - info_.step, "step", "steps"),
                        format_duration(seconds * static_cast<double>(batches)));
  log_.message(line);
  allocator(options_.device).reset_peak();
}

}  // namespace saccade
