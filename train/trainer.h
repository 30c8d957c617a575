// The training loop: batches -> model -> loss -> gradients -> optimizer -> averages -> log, with evaluations,
// checkpoints and exact resume. Everything that decides the weights is a function of the configuration and
// the step number; time only decides when a run stops.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "models/detector.h"
#include "train/config.h"
#include "train/run_log.h"

namespace saccade {

// A loss and its parts by name ("class", "bbox", ...), already weighted: their sum is the loss. figures are
// logged beside them.
struct TrainingLoss {
  Var total;  // [] f32
  NamedNumbers parts, figures;
};

// What is trained. Tests put small things in these places.
struct TrainingTask {
  std::shared_ptr<Detector> model;
  std::vector<std::string> class_names;  // [K]
  std::vector<int64_t> category_ids;     // [K]
  int64_t batches_per_epoch = 0;
  // A source of batches from batch `batch` of epoch `epoch` on, without end.
  std::function<std::function<Batch()>(int64_t epoch, int64_t batch)> open_batches;
  // The loss of one batch, divided by `objects` (at least 1).
  std::function<TrainingLoss(const DetectorOutput&, const std::vector<Target>&, double objects)> loss;
  // Figures of the model on the validation set; "AP" decides which weights are the best. Empty: no
  // evaluations.
  std::function<NamedNumbers(Detector&)> evaluate;
};

struct TrainerOptions {
  Config config;             // resolved
  std::string output;        // run folder: config.textproto, metrics.jsonl, event files, checkpoints/
  bool resume = false;       // from checkpoints/last.safetensors; from the start when there is none yet
  std::string init_from;     // weights to start from; not when resuming
  int64_t stop_at_step = 0;  // ends the run early without changing its schedule; 0: no
  bool quiet = false;        // nothing on stdout
};

struct TrainingResult {
  int64_t step = 0;     // optimizer steps done, of all runs
  double best_ap = -1;  // of best.safetensors; -1 without evaluations
  int64_t best_step = -1;
  NamedNumbers figures;  // of the last evaluation
};

// Trains the task's model. Throws InputError for a bad option or checkpoint, for an output folder that holds
// another run, and Error with a diagnosis (step, images, first bad tensor) when a loss or gradient is not
// finite; the checkpoint on disk is then that of the last good step.
TrainingResult train(const TrainerOptions& options, const TrainingTask& task);

}  // namespace saccade
