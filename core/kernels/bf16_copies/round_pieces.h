// Rounding of many tensors in one launch.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct RoundPiece {
  const float* from;
  bf16* to;
  int64_t count;  // at most kRoundPiece
};
inline constexpr int64_t kRoundPiece = 1024;

// to[i] = from[i], rounded to nearest even, of every piece. The table is u8 and holds them, where they live.
inline Kernel<void(const Tensor& table)> round_pieces{"round_pieces"};

}  // namespace saccade::kernels
