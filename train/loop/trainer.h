// The training loop: batches -> model -> loss -> gradients -> optimizer -> averages -> log, with evaluations,
// checkpoints and exact resume. Everything that decides the weights is a function of the configuration and
// the step number; time only decides when a run stops.
#pragma once

#include <string>

#include "train/checkpoints/init_from.h"
#include "train/checkpoints/run_folder.h"
#include "train/config/config.h"
#include "train/loop/training_task.h"

namespace saccade {

// Whether a step of the largest batch is tried before the first, so that memory runs out at once or not at
// all. kAuto: on a GPU, and where it is a small part of the run. It changes nothing that is trained.
enum class TrialBatch { kAuto, kOn, kOff };

struct TrainerOptions {
  Config config;          // resolved
  std::string output;     // run folder: config.textproto, metrics.jsonl, event files, checkpoints/
  bool resume = false;    // from the newest whole checkpoint; from the start when the folder holds no run yet
  std::string init_from;  // weights to start from; not when resuming
  std::string init_key;   // of the tensors in that file, see open_weights
  ClassHeads heads = ClassHeads::kTake;  // with init_from
  int64_t stop_at_step = 0;              // ends the run early without changing its schedule; 0: no
  Device device = Device::kCpu;
  bool quiet = false;  // nothing on stdout
  TrialBatch trial_batch = TrialBatch::kAuto;
};

// Why a run ended: the configuration's end, stop_at_step, train.max_minutes, train.patience or a signal
// (core/runtime/interrupt.h).
enum class StopReason { kComplete, kStep, kTime, kPatience, kSignal };

struct TrainingResult {
  int64_t step = 0;  // optimizer steps done, of all runs
  StopReason reason = StopReason::kComplete;
  int signal = 0;  // with kSignal
  std::string
      best_name;  // of the metric that decides which weights are the best; "" when nothing is evaluated
  double best_metric = -1;  // of best.safetensors; -1 without evaluations
  int64_t best_step = -1;
  Metrics metrics;  // of the last evaluation
};

// Trains the task's model in its run folder, which the second form is given. Where an InterruptScope lives, a
// signal ends the run after its step, with everything saved. Throws InputError for a bad option or
// checkpoint, for a configuration with which the run cannot continue, and for an output folder that holds
// another run; Interrupted for a signal before anything was done; Error with a diagnosis (step, images, first
// bad tensor) when a loss or gradient is not finite; the checkpoint on disk is then that of the last good
// step.
TrainingResult train(const TrainerOptions& options, TrainingTask& task);
TrainingResult train(const TrainerOptions& options, TrainingTask& task, RunFolder& folder);

}  // namespace saccade
