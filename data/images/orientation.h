// Cameras store a picture as the sensor saw it, with an EXIF tag that says how to rotate it. As in Pillow's
// ImageOps.exif_transpose and detectron2, the picture is rotated, and everything else refers to the rotated
// one.
#pragma once

#include <span>

#include "data/images/image.h"

namespace saccade {

// Returns the tag Orientation of the first directory of EXIF data (a TIFF header and what follows, with or
// without "Exif\0\0" before it), 1 to 8; 1 (not rotated) if it is missing, invalid, or beyond the first
// kMaxExifBytes, the most that a JPEG can have.
constexpr size_t kMaxExifBytes = size_t{1} << 16;
int exif_orientation(std::span<const uint8_t> exif);

// Returns how many bytes that needs: up to the end of the first directory.
size_t exif_directory_end(std::span<const uint8_t> exif);

// Returns the picture as shown.
Image turned(Image image, int orientation);
ImageSize turned(ImageSize size, int orientation);

}  // namespace saccade
