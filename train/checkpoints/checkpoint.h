// Checkpoints: one safetensors file with the model's tensors under their official names (a shared tensor
// under each of its names), so that official code loads it, and metadata from which eval and predict rebuild
// the model without anything else. A checkpoint of a running training also holds "optimizer.*" and "ema.*"
// tensors. No time enters a file: equal trainings write equal bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/optimizers/ema.h"
#include "train/optimizers/optimizer.h"

namespace saccade {

struct CheckpointInfo {
  std::string config;                    // resolved textproto
  std::vector<std::string> class_names;  // [K]
  std::vector<int64_t> category_ids;     // [K], of the training annotations; a classifier has none
  uint64_t seed = 0;
  int64_t step = 0;              // optimizer steps done so far
  int64_t epoch = 0, batch = 0;  // the next batch to read
  double best_metric = -1;       // highest AP or top-1 so far; -1 before the first evaluation
  int64_t best_step = -1;        // the newest evaluation that reached it
  int64_t best_since = -1;       // the first one
  int64_t ema_updates = 0;
  std::string images;           // the images it was trained on (TrainingTask::images); empty if unknown
  bool evaluation_due = false;  // stopped before the evaluation that was due at this step
};

// Writes the model, and the optimizer's state and the moving averages if they are given.
void save_checkpoint(const std::string& path, const Module& model, const CheckpointInfo& info,
                     const Optimizer* optimizer = nullptr, const Ema* ema = nullptr);

// Whether a tensor of a checkpoint belongs to the training state, not to the model.
bool is_training_state(const std::string& name);

// Throws InputError if the file is not a checkpoint of Saccade.
CheckpointInfo read_checkpoint_info(const SafetensorsReader& file);

// Checks that the file holds what load_model needs; `model` may be a sketch. Throws as load_model does.
void check_fits(const SafetensorsReader& file, const Module& model);

// Fills every parameter and buffer. With `averaged`, the values come from the moving averages where the file
// has them, as evaluation wants. Throws InputError naming the first tensor that is missing, has another shape
// or is unknown to the model; the model then stays unchanged.
void load_model(const SafetensorsReader& file, Module& model, bool averaged = true);

// Restores what save_checkpoint wrote besides the model. Throws InputError if the file has no such state.
void load_training_state(const SafetensorsReader& file, const CheckpointInfo& info, Optimizer& optimizer,
                         Ema* ema);

// Returns the name of the model's first tensor that holds NaN or infinity; empty if there is none.
std::string first_nonfinite(const Module& model);
// Throws InputError if the model, loaded from the file, holds weights that it cannot compute with: values
// that are not finite, or a negative variance.
void check_weights(const Module& model, const std::string& file);

}  // namespace saccade
