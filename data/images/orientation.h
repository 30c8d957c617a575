// Cameras store a picture as the sensor saw it, with an EXIF tag that says how to turn it. Read as Pillow's
// ImageOps.exif_transpose and detectron2 do: the picture is turned, and everything else speaks of the turned
// one.
#pragma once

#include <span>

#include "data/images/image.h"

namespace saccade {

// The tag Orientation of the first directory of EXIF data (a TIFF header and what follows, with or without
// "Exif\0\0" before it), 1 to 8; 1 (not turned) where there is none, it makes no sense, or lies beyond the
// first kMaxExifBytes, as much as a JPEG has.
constexpr size_t kMaxExifBytes = size_t{1} << 16;
int exif_orientation(std::span<const uint8_t> exif);

// How many of its bytes that takes: to the end of the first directory.
size_t exif_directory_end(std::span<const uint8_t> exif);

// The picture as it is shown.
Image turned(Image image, int orientation);
ImageSize turned(ImageSize size, int orientation);

}  // namespace saccade
