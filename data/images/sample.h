// An image on its way through the augmentations, with its ground truth.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types/box.h"
#include "data/images/image.h"

namespace saccade {

// Never empty: x1 < x2, y1 < y2.
struct SampleBox : Box {
  int64_t label = 0;  // contiguous class
  double area = 0;    // pixels of the object, of which its box may have more
};

struct Sample {
  Image image;
  std::vector<SampleBox> boxes;
  int64_t label = -1;      // class of the whole image; -1: it has none
  bool is_mosaic = false;  // made of several images, which are not zoomed or cut further
  // The batch is padded to at least this size (0: no minimum).
  int64_t canvas_height = 0, canvas_width = 0;
};

}  // namespace saccade
