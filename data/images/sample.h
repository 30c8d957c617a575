// An image with its ground truth while it passes through the augmentations.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types/instance.h"
#include "core/types/label_map.h"
#include "data/images/image.h"

namespace saccade {

struct Sample {
  Image image;
  std::vector<Instance> instances;  // their boxes are never empty: x1 < x2, y1 < y2
  int64_t label = -1;               // class of the whole image; -1 if it has none
  LabelMap label_map;               // of the image's size, or empty
  bool is_mosaic = false;           // made of several images; it is not zoomed or cropped further
  // The batch is padded to at least this size (0: no minimum).
  int64_t canvas_height = 0, canvas_width = 0;
};

}  // namespace saccade
