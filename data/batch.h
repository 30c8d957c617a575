// What the data pipeline hands to the trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace saccade {

// The ground truth of one image after augmentation.
struct Target {
  int64_t image_id = 0;
  std::string file_name;
  int64_t original_height = 0, original_width = 0;  // pixels, of the file
  int64_t height = 0, width = 0;                    // pixels, after augmentation, without padding
  // Contiguous classes [T] of the objects; of the whole image (T = 1, without boxes) for a classifier.
  std::vector<int64_t> labels;
  std::vector<float> boxes;  // [T, 4] as (cx, cy, w, h), normalised by width and height
  std::vector<float> areas;  // [T], pixels of the augmented image
};

struct Batch {
  Tensor images;                 // u8 [N, H, W, 3], RGB, padding is 0
  Tensor padding_mask;           // bool [N, H, W], true = padding
  std::vector<Target> targets;   // N
  int64_t epoch = 0, index = 0;  // which batch of which epoch
  // Mixed batches: image n is this share of its own and 1 - share of image N - 1 - n.
  double share = 1;
};

}  // namespace saccade
