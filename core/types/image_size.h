// Sizes of pictures, in pixels.
#pragma once

#include <cstdint>

namespace saccade {

// Refused above this many pixels (Pillow's limit against decompression bombs),
// whether read or made by resizing.
inline constexpr int64_t kMaxImagePixels = 178'956'970;

// Of a picture, or of the part of a padded one that is not padding (its top left corner).
struct ImageSize {
  int64_t height = 0, width = 0;  // pixels
  bool operator==(const ImageSize&) const = default;
};

}  // namespace saccade
