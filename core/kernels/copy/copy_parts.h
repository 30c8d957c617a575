// Many tensors into one block of memory.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// The elements of block (f32, contiguous) from begins[i] on = those of xs[i] (f32); all others stay.
inline Kernel<void(Tensor& block, std::span<const Tensor> xs, std::span<const int64_t> begins)> copy_parts{
    "copy_parts"};

}  // namespace saccade::kernels
