// A run of the trainer, shared by start.cpp, training_step.cpp (one step) and trainer.cpp (evaluation, saving
// and the end).
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
#include "data/loading/bad_image_lines.h"
#include "data/loading/batch.h"
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

// Measures a step for the log.
class StepTimer {
 public:
  explicit StepTimer(Device device)
      : device_(device),
        counts_before_(cuda_statistics()),
        allocations_before_(allocator(device).stats().requests) {}

  // Records the time since the last part, in ms.
  void end_part(const char* name) {
    const auto now = Clock::now();
    metrics_.emplace_back(name, milliseconds(now - part_start_));
    part_start_ = now;
  }
  // Excludes what was done since the last part from the step.
  void leave_out() {
    const auto now = Clock::now();
    start_ += now - part_start_;
    part_start_ = now;
    counts_before_ = cuda_statistics();
    allocations_before_ = allocator(device_).stats().requests;
  }
  // Returns the times of the parts and of the whole step, and on a GPU the counts of its operations.
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

// A step whose work was handed to the device and whose numbers have not been read yet. A loss or gradient
// that is not finite changed nothing there (see core/kernels/optimizer/optimizer.h), so on a GPU it is early
// enough to read them during the next step, when they have arrived without waiting.
struct PendingStep {
  struct Loss {  // of one batch
    std::vector<std::string> names;
    HostCopy values;
    std::function<MeanMetrics()> metrics;
  };
  int64_t step = 0;
  // For the diagnosis: the batches, and where the random numbers of each start.
  std::vector<Batch> batches;
  std::vector<uint64_t> first_calls;
  uint64_t rng_key = 0;
  std::vector<StepImages> of_batches;
  StepImages images;  // of all batches and ranks
  std::vector<Loss> losses;
  HostCopy gradient_norm;
  Metrics metrics;  // those already known: times, counts, the learning rate
};

class TrainingRun {
 public:
  TrainingRun(const TrainerOptions& options, TrainingTask& task, RunFolder& folder);
  TrainingResult run();
  // The same in pieces, each in an ExecutionScope of the caller: begin() once, then go_on() until it returns
  // false, without a step: the run is over.
  void begin();
  bool go_on();
  TrainingResult end();
  void save();  // saves the state after the last step
  int64_t steps_done() const { return info_.step; }
  const Metrics& step_metrics() const { return step_metrics_; }  // of the last step whose metrics are known

 private:
  void set_execution();
  // Starts from nothing, from other weights or from a checkpoint.
  void start();
  std::string best_metric() const;
  void describe();  // prints on the console what is trained
  // Runs a step of the largest batch without its update, and prints what it takes (trial_batch.cpp). Throws
  // OutOfMemory.
  void try_largest_batch();
  // Throws InputError if the run of the checkpoint cannot continue with this configuration and data;
  // otherwise returns the differences.
  std::vector<ConfigChange> check_resumable(const ResumePoint& from) const;
  std::vector<ConfigChange> new_changes(const std::vector<ConfigChange>& since_checkpoint) const;
  void resume(const ResumePoint& from, const std::vector<ConfigChange>& changes);
  // Writes the first files of a new run at its first batch: from then on there is always a checkpoint.
  void begin_folder();

  // Runs one step; the functions below are in order.
  void step();
  void read_batches(PendingStep& now);
  // What the ranks of a process group agree on, in shared_step.cpp: what their batches have in common, their
  // losses, and when to stop.
  void check_same_run();
  void check_same_weights();
  void share_batches(PendingStep& now, const std::string& problem);
  void share_losses(PendingStep& now, std::vector<Tensor>& losses);
  void share_means(MeanMetrics& means) const;
  void share_metrics(Metrics& metrics) const;
  std::string first_finding(const std::string& own) const;
  // Accumulates the gradients of the batches; returns their losses.
  std::vector<Tensor> backpropagate(PendingStep& now, StepTimer& timer);
  // The same; retries once, with the same numbers, if blocks of other sizes fragmented the GPU's memory.
  std::vector<Tensor> backpropagate_with_room(PendingStep& now, StepTimer& timer);
  void update_weights(PendingStep& now, std::span<const Tensor> losses);
  void advance();
  // Reads the numbers of the pending step, if there is one: waits for them, stops the run if one is not
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

  // Returns the signal that ends the run, after the same step on all ranks.
  int stop_signal() const { return group_.alone() ? interrupt_signal() : agreed_signal_; }
  void agree_on_signal();
  bool is_out_of_time() const;

  Ema* ema() { return ema_ ? &*ema_ : nullptr; }

  ProcessGroup& group_ = process_group();
  int agreed_signal_ = 0;
  bool agreed_out_of_time_ = false;
  BadImageLines skipped_;
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
  KeptBuffers buffers_;  // saved before the step
  std::optional<Optimizer> optimizer_;
  std::optional<Ema> ema_;
  std::optional<GradientSum> sum_;  // if there are several ranks
  std::function<Batch()> next_batch_;
  std::set<std::string> told_;  // notes of evaluations that were already printed
  CheckpointInfo info_;
  std::optional<PendingStep> pending_;
  Metrics step_metrics_;
  bool out_of_time_ = false, stopping_ = false;
  TrainingResult result_;
};

// Checks the model's tensors, then lets `run` compute the loss again (the same forward pass) while watching
// every op, then its backward pass. Describes the finding in one line: a tensor of the model, the first op
// whose output is NaN or infinite with its module, or the first such backward function, followed by the
// problems that the loss found in the predictions; "" if all is finite. Slow, and leaves gradients behind:
// meant for a run that is about to stop.
std::string diagnose_nonfinite(const Module& model, const std::function<TrainingLoss()>& run);

// Says what usually keeps numbers finite.
std::string remedy_of_divergence(const Config& config);

// Returns "image 12 (a.jpg), image 15 (b.jpg)".
std::string images_of(const Batch& batch);

// Throws InputError, before allocating, if the gradients, the optimizer's state, the averages and the images
// of a step exceed the memory that is left. Activations come on top, and cannot be foreseen. On a GPU only
// the images count.
void check_memory_need(const Config& config, const Module& model, Device device);

}  // namespace saccade
