// An object in an image.
#pragma once

#include <cstdint>
#include <memory>

#include "core/types/box.h"
#include "core/types/mask.h"

namespace saccade {

struct Instance {
  int64_t label = 0;  // class, numbered from 0 without gaps
  Box box;            // pixels of its image
  double area = 0;    // pixels of the object itself; its box may have more
  bool crowd = false;
  double score = 1;                       // score of a detection, in [0, 1]
  std::shared_ptr<const Mask> mask = {};  // has the image's size; null if there is none
};

}  // namespace saccade
