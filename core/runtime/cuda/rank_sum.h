// Adds up the gradients of several ranks on the GPU of one of them.
#pragma once

#include <cstdint>

namespace saccade::cuda {

// own [part] = received[0] + ... + received[size - 1], added in this order, where received is [size, part].
// received[rank] is not read; own takes its place.
void add_ranks(float* own, const float* received, int64_t part, int rank, int size);

}  // namespace saccade::cuda
