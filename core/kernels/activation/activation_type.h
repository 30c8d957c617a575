// The activations that matrix products, convolutions and norms can end with.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/tensor/hd.h"

namespace saccade {

enum class Activation : uint8_t { kNone, kRelu, kGelu };  // gelu is the exact erf form

}  // namespace saccade
