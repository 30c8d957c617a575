// A run of the trainer, for start.cpp, training_step.cpp (one step) and trainer.cpp (how it evaluates,
// saves and ends).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/distributed/process_group.h"
#include "core/runtime/gpu.h"
#include "core/runtime/host_copy.h"
#include "core/runtime/interrupt.h"
#include "core/types/metrics.h"
#include "data/loading/batch.h"
#include "data/loading/skipped_images.h"
#include "layers/module.h"
#include "train/checkpoints/run_folder.h"
#include "train/config/config.h"
#include "train/config/schema/config_changes.h"
#include "train/loop/kept_buffers.h"
#include "train/loop/trainer.h"
#include "train/loop/training_log.h"
#include "train/loop/training_task.h"
#include "train/optimizers/gradient_sum.h"
#include "train/optimizers/schedule.h"

namespace saccade {

// How long a step took, for the log.
class StepTimer {
 public:
  explicit StepTimer(Device device)
      : device_(device),
        counts_before_(cuda_statistics()),
        allocations_before_(allocator(device).stats().requests) {}

  // The time since the last part, in ms.
  void end_part(const char* name) {
    const auto now = Clock::now();
    metrics_.emplace_back(name, milliseconds(now - part_start_));
    part_start_ = now;
  }
  // What was done since the last part is not the step's.
  void leave_out() {
    const auto now = Clock::now();
    start_ += now - part_start_;
    part_start_ = now;
    counts_before_ = cuda_statistics();
    allocations_before_ = allocator(device_).stats().requests;
  }
  // The parts, the whole, and on a GPU what was asked of it.
  Metrics metrics() const {
    Metrics out = metrics_;
    out.emplace_back("step_ms", milliseconds(Clock::now() - start_));
    if (device_ != Device::kCuda) return out;
    const CudaStatistics after = cuda_statistics();
    auto count = [&](const char* name, int64_t n) { out.emplace_back(name, static_cast<double>(n)); };
    count("launches", after.launches - counts_before_.launches);
    count("host_syncs", after.host_syncs - counts_before_.host_syncs);
    count("uploaded_bytes", after.uploaded_bytes - counts_before_.uploaded_bytes);
    count("allocations", allocator(device_).stats().requests - allocations_before_);
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double milliseconds(Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  }

  Device device_;
  CudaStatistics counts_before_;
  int64_t allocations_before_;
  Clock::time_point start_ = Clock::now(), part_start_ = start_;
  Metrics metrics_;
};

// A step whose work was given to the device and whose numbers nobody has looked at yet. A gradient or loss
// that is not finite changed nothing there (see core/kernels/optimizer/optimizer.h), so on a GPU it is early
// enough to look during the next step, when the numbers have arrived without waiting.
struct PendingStep {
  struct Loss {  // of one batch
    std::vector<std::string> names;
    HostCopy values;
    std::function<MeanMetrics()> metrics;
  };
  int64_t step = 0;
  // For the diagnosis: the batches, and where each one's random numbers start.
  std::vector<Batch> batches;
  std::vector<uint64_t> first_calls;
  uint64_t rng_key = 0;
  std::vector<StepImages> of_batches;
  StepImages images;  // of all batches and ranks
  std::vector<Loss> losses;
  HostCopy gradient_norm;
  Metrics metrics;  // that are known already: times, counts, the learning rate
};

class TrainingRun {
 public:
  TrainingRun(const TrainerOptions& options, TrainingTask& task, RunFolder& folder);
  TrainingResult run();
  // The same in pieces, each in an ExecutionScope of the caller: begin() once, then go_on() until it gives
  // false: then there was no step to take.
  void begin();
  bool go_on();
  TrainingResult end();
  void save();  // as it is after the last step
  int64_t steps_done() const { return info_.step; }
  const Metrics& step_metrics() const { return step_metrics_; }  // of the last step that is known

 private:
  void set_execution();
  // Start: from nothing, from other weights or from a checkpoint.
  void start();
  std::string best_metric() const;
  void describe();  // what is trained, on the console
  // Runs a step of the largest batch, without its update, and says what it takes (trial_batch.cpp).
  // Throws OutOfMemory.
  void try_largest_batch();
  // Throws InputError when the run of the checkpoint cannot continue with this configuration and data;
  // else what differs.
  std::vector<ConfigChange> check_resumable(const ResumePoint& from) const;
  std::vector<ConfigChange> new_changes(const std::vector<ConfigChange>& since_checkpoint) const;
  void resume(const ResumePoint& from, const std::vector<ConfigChange>& changes);
  // What a new run writes when its first batch is there: from then on there is a checkpoint at every moment.
  void begin_folder();

  // One step, in order.
  void step();
  void read_batches(PendingStep& now);
  // What the ranks of a process group agree on, in shared_step.cpp: what the batches of all have together,
  // their losses, and when to stop.
  void check_same_run();
  void check_same_weights();
  void share_batches(PendingStep& now, const std::string& problem);
  void share_losses(PendingStep& now, std::vector<Tensor>& losses);
  void share_means(MeanMetrics& means) const;
  void share_metrics(Metrics& metrics) const;
  std::string first_finding(const std::string& own) const;
  // Adds up the gradients of the batches; returns their losses.
  std::vector<Tensor> backpropagate(PendingStep& now, StepTimer& timer);
  // The same; once more, with the same numbers, where the GPU's memory was used up in pieces of other sizes.
  std::vector<Tensor> backpropagate_with_room(PendingStep& now, StepTimer& timer);
  void update_weights(PendingStep& now, std::span<const Tensor> losses);
  void advance();
  // Looks at the numbers of the pending step, if there is one: waits for them, stops the run when one is not
  // finite, and logs them.
  void finish_pending_step();
  void tell_skipped(const std::string& image);
  // `suspects`: positions among the step's batches.
  [[noreturn]] void fail_nonfinite(const char* what, PendingStep& s, std::span<const size_t> suspects);

  // After a step.
  void evaluate_and_save(bool last);
  void save_last();
  void evaluate_if_due();
  void evaluate(bool scheduled);
  void keep_if_best(double metric, bool scheduled);
  // Whether train.patience scheduled evaluations have passed since the first that was as good as the best
  // one.
  bool out_of_patience() const;
  StopReason stop_reason(bool out_of_time) const;

  // The signal that ends the run, on all ranks after the same step.
  int stop_signal() const { return group_.alone() ? interrupt_signal() : agreed_signal_; }
  void agree_on_signal();
  bool is_out_of_time() const;

  Ema* ema() { return ema_ ? &*ema_ : nullptr; }

  ProcessGroup& group_ = process_group();
  int agreed_signal_ = 0;
  bool agreed_out_of_time_ = false;
  SkippedImages skipped_;
  const TrainerOptions& options_;
  TrainingTask& task_;
  const Config& config_;
  Module& model_;
  TrainingPlan plan_;
  config::Schedule schedule_;
  int64_t stop_step_;
  RunFolder& folder_;
  bool folder_begun_ = false;
  TrainingLog log_;
  KeptBuffers buffers_;  // as they were before the step
  std::optional<Optimizer> optimizer_;
  std::optional<Ema> ema_;
  std::optional<GradientSum> sum_;  // of several ranks
  std::function<Batch()> next_batch_;
  std::set<std::string> told_;  // notes of evaluations
  CheckpointInfo info_;
  std::optional<PendingStep> pending_;
  Metrics step_metrics_;
  bool out_of_time_ = false, stopping_ = false;
  TrainingResult result_;
};

// Looks at the model's tensors, then has the loss `run` again (the same forward pass) watching every op, then
// its backward pass; describes the finding in one line: a tensor of the model, the first op whose output is
// NaN or infinite with its module, or the first backward function, followed by the problems that the loss
// found in the predictions; "" when all is finite. Slow, and leaves gradients behind:
// for a run that is about to stop.
std::string diagnose_nonfinite(const Module& model, const std::function<TrainingLoss()>& run);

// "image 12 (a.jpg), image 15 (b.jpg)"
std::string images_of(const Batch& batch);

// Throws InputError when what follows the model's weights, gradients, optimizer state, averages and the
// images of a step, exceeds what is left: before it is taken. Activations come on top, and are not foreseen.
// On a GPU only images count.
void check_memory_need(const Config& config, const Module& model, Device device);

}  // namespace saccade
