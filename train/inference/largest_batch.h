// The largest training batch of a configuration, used to test whether a step of it fits into memory.
#pragma once

#include <cstdint>
#include <span>

#include "core/types/image_size.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

// The size of such a batch with its padding, given the sizes of the data set's images (0 x 0: unknown).
ImageSize largest_batch_size(const Config& config, std::span<const ImageSize> images);

// Returns a batch of noise of that size. Every image has this many objects of class 0 (for a classifier none;
// the image itself is one), times the images that mosaic and mix-up put into one. Does not draw from the
// training's random numbers.
Batch largest_batch(const Config& config, std::span<const ImageSize> images, int64_t objects);

}  // namespace saccade
