// The training loop: batches -> model -> loss -> gradients -> optimizer -> averages -> log, with evaluations,
// checkpoints and exact resume. Everything that determines the weights is a function of the configuration and
// the step number; time only decides when a run stops.
#pragma once

#include <string>

#include "train/checkpoints/init_from.h"
#include "train/checkpoints/run_folder.h"
#include "train/config/config.h"
#include "train/loop/training_task.h"

namespace saccade {

// Whether a step with the largest batch is tried before the first one, so that memory runs out at once or not
// at all. kAuto: on a GPU, and if it is a small part of the run. It does not affect the training.
enum class TrialBatch { kAuto, kOn, kOff };

struct TrainerOptions {
  Config config;          // resolved
  std::string output;     // the run folder: config.textproto, metrics.jsonl, event files, checkpoints/
  bool resume = false;    // from the newest whole checkpoint; from the start if the folder holds no run yet
  std::string init_from;  // weights to start from; unused when resuming
  std::string init_key;   // the key of the tensors in that file, see open_weights
  ClassHeads heads = ClassHeads::kTake;  // with init_from
  int64_t stop_at_step = 0;              // ends the run early without changing its schedule; 0: does not
  Device device = Device::kCpu;
  bool quiet = false;  // prints nothing on stdout
  TrialBatch trial_batch = TrialBatch::kAuto;
};

// Why a run ended: it reached the end that the configuration plans, or stop_at_step, train.max_minutes,
// train.patience or a signal (core/runtime/interrupt.h) ended it.
enum class StopReason { kComplete, kStep, kTime, kPatience, kSignal };

struct TrainingResult {
  int64_t step = 0;  // optimizer steps done, including those before resuming
  StopReason reason = StopReason::kComplete;
  int signal = 0;           // with kSignal
  std::string best_name;    // the metric that decides which weights are best; empty if nothing is evaluated
  double best_metric = -1;  // of best.safetensors; -1 without evaluations
  int64_t best_step = -1;
  Metrics metrics;  // of the last evaluation
};

// Trains the task's model in its run folder, which the second form receives. Within an InterruptScope, a
// signal ends the run after the current step, with everything saved. Throws InputError for a bad option or
// checkpoint, for a configuration with which the run cannot continue, and for an output folder that holds
// another run; Interrupted for a signal before anything was done; Error with a diagnosis (step, images, first
// bad tensor) if a loss or gradient is not finite, when the checkpoint on disk is that of the last good step.
TrainingResult train(const TrainerOptions& options, TrainingTask& task);
TrainingResult train(const TrainerOptions& options, TrainingTask& task, RunFolder& folder);

}  // namespace saccade
