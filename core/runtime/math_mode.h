// How exactly products of f32 are computed on a GPU.
#pragma once

#include <cstdint>

namespace saccade {

enum class MathMode : uint8_t {
  kExact,  // every factor in f32
  kTf32,   // tensor cores may round the factors to 10 bits of mantissa; sums stay f32
};

// Of this thread's kernels. Ops set it from execution().math (autograd/scope.h).
inline thread_local MathMode math_mode = MathMode::kExact;

}  // namespace saccade
