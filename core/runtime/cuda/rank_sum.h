// The sum of the gradients of several ranks on the GPU of one of them.
#pragma once

#include <cstdint>

namespace saccade::cuda {

// own [part] = received[0] + ... + received[size - 1] of received [size, part], added in this order, with own
// instead of received[rank], which is not read.
void add_ranks(float* own, const float* received, int64_t part, int rank, int size);

}  // namespace saccade::cuda
