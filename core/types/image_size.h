// Sizes of images, in pixels.
#pragma once

#include <cstdint>

namespace saccade {

// Larger images are refused, whether read or made by resizing. This is Pillow's limit against decompression
// bombs.
inline constexpr int64_t kMaxImagePixels = 178'956'970;

// The size of an image, or of the part of a padded image that is not padding (its top left corner).
struct ImageSize {
  int64_t height = 0, width = 0;  // pixels
  bool operator==(const ImageSize&) const = default;
};

}  // namespace saccade
