// The size of a picture, or of the part of a padded one that is not padding (its top left corner).
#pragma once

#include <cstdint>

namespace saccade {

struct ImageSize {
  int64_t height = 0, width = 0;  // pixels
  bool operator==(const ImageSize&) const = default;
};

}  // namespace saccade
