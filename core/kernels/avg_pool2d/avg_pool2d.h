// Average pooling on [N, H, W, C], by windows that touch and do not overlap, or to a size of one's own.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// x [N, H, W, C] -> y [N, OH, OW, C], contiguous, of one floating dtype. With a window OH is
// ceil(H / window), and the averages at the lower and right edge are those of the cells that there are.
// Without one (0), an output is the mean of the cells from floor(i * before / after) up to
// ceil((i + 1) * before / after) of each axis, which may overlap (PyTorch's AdaptiveAvgPool2d).
inline Kernel<void(const Tensor& x, int64_t window, Tensor& y)> avg_pool2d_forward{"avg_pool2d_forward"};
inline Kernel<void(const Tensor& dy, int64_t window, Tensor& dx)> avg_pool2d_backward{"avg_pool2d_backward"};

}  // namespace saccade::kernels
