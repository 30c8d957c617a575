// Resizing, byte for byte equal to Pillow's Image.resize(size, Image.BILINEAR or Image.BICUBIC): a triangle
// or Keys' cubic (a = -0.5) that widens with the reduction (so it does not alias), in 8-bit fixed point.
// Releases before Pillow 13 always resize the width first, which differs in the last bit if the height
// shrinks by more than twice as many pixels as the width; this follows Pillow 13 (python-pillow/Pillow,
// src/libImaging/Resample.c). kFourPixels is the triangle without widening, torch's interpolate with mode
// "bilinear".
#pragma once

#include "data/images/image.h"

namespace saccade {

enum class Filter { kBilinear, kBicubic, kFourPixels };

// height and width are at least 1; throws InputError for a size that check_image_size refuses. Returns a copy
// if the size is the image's own.
Image resize_image(const Image& image, int64_t height, int64_t width, Filter filter = Filter::kBilinear);

}  // namespace saccade
