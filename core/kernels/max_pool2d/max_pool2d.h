// Max pooling on [N, H, W, C]; padding never wins. The first of equal values wins; a NaN wins over
// everything.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct PoolParams {
  int64_t kernel = 2, stride = 2, padding = 0;  // kernel <= 16, padding <= kernel / 2
};

// y [N, OH, OW, C]; index (u8, y's shape, may be undefined): the winner's position in the window, row *
// kernel + column
inline Kernel<void(const Tensor& x, const PoolParams& p, Tensor& y, Tensor& index)> max_pool2d_forward{
    "max_pool2d_forward"};
// dx [N, H, W, C]: every input gathers from the windows that it won
inline Kernel<void(const Tensor& dy, const Tensor& index, const PoolParams& p, Tensor& dx)>
    max_pool2d_backward{"max_pool2d_backward"};

}  // namespace saccade::kernels
