// Resizing of feature maps.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

enum class Resampling : uint8_t {
  kNearest,  // cell floor(i * before / after): torch's "nearest" without its rounding errors
  // Between centres, with the outermost values continued and no antialiasing when shrinking: torch's with
  // align_corners = false.
  kBilinear,
};

// x [N, H, W, C] -> y [N, OH, OW, C]; contiguous, of one floating dtype
inline Kernel<void(const Tensor& x, Resampling how, Tensor& y)> resize_forward{"resize_forward"};
inline Kernel<void(const Tensor& dy, Resampling how, Tensor& dx)> resize_backward{"resize_backward"};

}  // namespace saccade::kernels
