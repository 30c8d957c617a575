// The output of the data pipeline for the trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "core/types/target.h"

namespace saccade {

struct Batch {
  Tensor images;                 // u8 [N, H, W, 3], RGB; padding (outside a target's height and width) is 0
  std::vector<Target> targets;   // N
  int64_t epoch = 0, index = 0;  // index of the batch within the epoch
  // Mixed batches: image n is lambda times itself plus 1 - lambda times image N - 1 - n.
  double lambda = 1;
  // For a process's part of a shared batch: the index of its first image and the size of the whole batch (0:
  // not shared). For a mixed batch, the labels of image N - 1 - n of the whole batch.
  int64_t first = 0, whole = 0;
  std::vector<int64_t> partner_labels;
  // The largest number of objects of an image in all batches of the step and all processes; 0 if unknown.
  int64_t most_objects = 0;
  // Images that were skipped because they cannot be read, with the reason, and warnings of damaged ones that
  // were read; every image once (BadImageLines).
  std::vector<std::string> bad_images;
};

}  // namespace saccade
