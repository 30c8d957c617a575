// Average pooling on [N, H, W, C] to a size of one's own: the mean of cells floor(i * before / after) up to
// ceil((i + 1) * before / after) of each axis, which may overlap (PyTorch's AdaptiveAvgPool2d).
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// x [N, H, W, C] -> y [N, OH, OW, C]; contiguous, of one floating dtype
inline Kernel<void(const Tensor& x, Tensor& y)> adaptive_avg_pool2d_forward{"adaptive_avg_pool2d_forward"};
inline Kernel<void(const Tensor& dy, Tensor& dx)> adaptive_avg_pool2d_backward{
    "adaptive_avg_pool2d_backward"};

}  // namespace saccade::kernels
