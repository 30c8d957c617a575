// The largest training batch of a configuration, to try whether a step of it fits into the memory.
#pragma once

#include <cstdint>
#include <span>

#include "core/types/image_size.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

// Of a training batch with its padding, given the sizes of the data set's images (0 x 0: not known).
ImageSize largest_batch_size(const Config& config, std::span<const ImageSize> images);

// A batch of noise of that size; every image has this many objects of class 0 (of a classifier: none, it is
// one). No random numbers of the training are drawn.
Batch largest_batch(const Config& config, std::span<const ImageSize> images, int64_t objects);

}  // namespace saccade
