// Training a classifier: image folders, cross entropy with soft targets (label smoothing, mixup, CutMix), and
// top-1 and top-5 accuracy.
#pragma once

#include "models/classifier.h"
#include "train/config/config.h"
#include "train/loop/training_task.h"

namespace saccade {

// Builds the model and opens the data sets. Throws InputError for what the configuration or the data sets
// lack.
std::unique_ptr<TrainingTask> make_classification_task(const Config& config);

// The sum over the batch of the cross entropy of logits [N, K] with the targets
//   share * smooth(label_n) + (1 - share) * smooth(label_{N-1-n}),
// smooth(c) = (1 - smoothing) * onehot(c) + smoothing / K.
Var soft_target_loss(const Var& logits, const Batch& batch, double smoothing);

}  // namespace saccade
