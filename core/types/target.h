// What an image holds, as the data pipeline says it and the losses and matchers of the models read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace saccade
