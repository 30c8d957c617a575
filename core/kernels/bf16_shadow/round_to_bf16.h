// Rounds many tensors in one launch.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct Bf16Chunk {
  const float* from;
  bf16* to;
  int64_t count;  // at most kBf16Chunk
};
inline constexpr int64_t kBf16Chunk = 1024;

// to[i] = from[i], rounded to nearest even, for every chunk. The table is u8 and holds the chunks, on the
// device to whose memory they point.
inline Kernel<void(const Tensor& table)> round_to_bf16{"round_to_bf16"};

}  // namespace saccade::kernels
