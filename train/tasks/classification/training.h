// Training a classifier: image folders, cross entropy with soft targets (label smoothing, mixup, CutMix), and
// top-1 and top-5 accuracy.
#pragma once

#include "autograd/ops.h"
#include "data/loading/batch.h"

namespace saccade {

// The sum over the batch of the cross entropy of logits [N, K] with the targets
//   lambda * smooth(label_n) + (1 - lambda) * smooth(label_{N-1-n}),
// smooth(c) = (1 - smoothing) * onehot(c) + smoothing / K.
Var soft_target_loss(const Var& logits, const Batch& batch, double smoothing);

}  // namespace saccade
