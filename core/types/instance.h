// An object in an image.
#pragma once

#include <cstdint>
#include <memory>

#include "core/types/box.h"
#include "core/types/mask.h"

namespace saccade {

struct Instance {
  int64_t label = 0;  // contiguous class
  Box box;            // pixels of its image
  double area = 0;    // pixels of the object, of which its box may have more
  bool crowd = false;
  double score = 1;                       // [0, 1] of what a model has found
  std::shared_ptr<const Mask> mask = {};  // of the image's size; null: none
};

}  // namespace saccade
