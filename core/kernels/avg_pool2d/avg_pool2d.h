// Average pooling on [N, H, W, C], by adjacent windows or to a given size.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// x [N, H, W, C] -> y [N, OH, OW, C], contiguous, of one floating dtype. With a window, OH is ceil(H /
// window), and the averages at the lower and right edge cover only the existing cells. With window 0, an
// output is the mean of the cells from floor(i * before / after) up to ceil((i + 1) * before / after) of each
// axis; these ranges may overlap (PyTorch's AdaptiveAvgPool2d).
inline Kernel<void(const Tensor& x, int64_t window, Tensor& y)> avg_pool2d_forward{"avg_pool2d_forward"};
inline Kernel<void(const Tensor& dy, int64_t window, Tensor& dx)> avg_pool2d_backward{"avg_pool2d_backward"};

}  // namespace saccade::kernels
