// Functions that a GPU's special function units compute in one instruction, to about two ulp.
#pragma once

#include <cmath>

#include "core/runtime/cuda/api.h"

namespace saccade::cuda {

#ifdef SACCADE_EMULATOR
inline float exp2_approx(float x) { return std::exp2(x); }
inline float reciprocal_approx(float x) { return 1 / x; }
#else
// Subnormal arguments and results are flushed to zero.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

}  // namespace saccade::cuda
