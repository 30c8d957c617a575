// What the data pipeline hands to the trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "core/types/target.h"

namespace saccade {

struct Batch {
  Tensor images;                 // u8 [N, H, W, 3], RGB, padding (outside a target's height and width) is 0
  std::vector<Target> targets;   // N
  int64_t epoch = 0, index = 0;  // which batch of which epoch
  // Mixed batches: image n is lambda of its own and 1 - lambda of image N - 1 - n.
  double lambda = 1;
  // Of a batch that several processes share, its own part: where its images begin and how many all have; 0:
  // it is whole. Of a mixed one the labels of image N - 1 - n of the whole batch.
  int64_t first = 0, whole = 0;
  std::vector<int64_t> partner_labels;
  // Objects of the image that has the most, of all batches of the step and all processes; 0: not known.
  int64_t most_objects = 0;
  std::vector<std::string>
      skipped;  // images that could not be read and why, every image once (SkippedImages)
};

}  // namespace saccade
