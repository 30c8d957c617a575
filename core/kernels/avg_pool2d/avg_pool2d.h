// Average pooling on [N, H, W, C] by windows that touch and do not overlap. Those at the lower and right edge
// are averages of the cells that there are.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y [N, ceil(H / window), ceil(W / window), C]; contiguous, of one floating dtype
inline Kernel<void(const Tensor& x, int64_t window, Tensor& y)> avg_pool2d_forward{"avg_pool2d_forward"};
inline Kernel<void(const Tensor& dy, int64_t window, Tensor& dx)> avg_pool2d_backward{"avg_pool2d_backward"};

}  // namespace saccade::kernels
