// Where the first bad number of a training step came from.
#pragma once

#include <functional>
#include <string>

#include "data/loading/batch.h"
#include "layers/module.h"
#include "train/loop/training_task.h"

namespace saccade {

// Looks at the model's tensors, then has the loss `run` again (the same forward pass) watching every op, then
// its backward pass; describes the finding in one line: a tensor of the model, the first op whose output is
// NaN or infinite with its module, or the first backward function, followed by the problems that the loss
// found in the predictions; "" when all is finite. Slow, and leaves gradients behind:
// for a run that is about to stop.
std::string diagnose_nonfinite(const Module& model, const std::function<TrainingLoss()>& run);

// "image 12 (a.jpg), image 15 (b.jpg)"
std::string images_of(const Batch& batch);

}  // namespace saccade
