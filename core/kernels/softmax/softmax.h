// Softmax and its logarithm over the last axis; all tensors contiguous, of one shape and floating dtype.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y = exp(x - max) / sum of exp(x - max), per row
inline Kernel<void(const Tensor& x, Tensor& y)> softmax{"softmax"};
// dx = y (dy - dot(y, dy))
inline Kernel<void(const Tensor& y, const Tensor& dy, Tensor& dx)> softmax_backward{"softmax_backward"};
// y = x - max - log(sum of exp(x - max))
inline Kernel<void(const Tensor& x, Tensor& y)> log_softmax{"log_softmax"};
// dx = dy - exp(y) sum(dy)
inline Kernel<void(const Tensor& y, const Tensor& dy, Tensor& dx)> log_softmax_backward{
    "log_softmax_backward"};

}  // namespace saccade::kernels
