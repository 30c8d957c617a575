// Integer arithmetic for sizes, on both devices.
#pragma once

#include <cstdint>

#include "core/tensor/hd.h"

namespace saccade {

// a / b rounded up; a >= 0, b > 0.
SACCADE_HD constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The smallest multiple of b that is at least a.
SACCADE_HD constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace saccade
