// A trained model at work, whatever its task.
#pragma once

#include <vector>

#include "core/types/instance.h"
#include "data/loading/batch.h"

namespace saccade {

class Inferencer {
 public:
  virtual ~Inferencer() = default;
  // From bytes to results on the host: for each image of the batch what was found, by falling score, in
  // pixels of the original image. A class of the whole image has a box around it. Called in evaluation mode,
  // without gradients; on a CPU from any number of threads. Throws NotFinite.
  virtual std::vector<std::vector<Instance>> run(const Batch& batch) = 0;
};

}  // namespace saccade
