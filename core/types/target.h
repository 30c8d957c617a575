// The contents of an image, as the data pipeline gives them to the losses and matchers of the models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/types/image_size.h"
#include "core/types/instance.h"
#include "core/types/label_map.h"

namespace saccade {

// The ground truth of one image after augmentation.
struct Target {
  int64_t image_id = 0;
  std::string file_name;
  int64_t original_height = 0, original_width = 0;  // pixels of the file
  int64_t height = 0, width = 0;                    // pixels, after augmentation, without padding
  int64_t label = -1;                               // class of the whole image; -1 if it has none
  // The objects, in pixels of `frame`, the size of the augmented image before its batch was resized.
  ImageSize frame;
  std::vector<Instance> instances;
  // The class of every pixel of `frame`; null if not known.
  std::shared_ptr<const LabelMap> label_map = {};
};

}  // namespace saccade
