// Selection of rows by index, and its gradient. All tensors are contiguous; indices are i64 and in range (the
// ops check).
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// x [N, S, C] any dtype, indices [N, K] -> y [N, K, C]: y[n, k] = x[n, indices[n, k]]
inline Kernel<void(const Tensor& x, const Tensor& indices, Tensor& y)> gather_rows{"gather_rows"};
// dy [N, K, C] -> dx [N, S, C] of the accumulation type of dy: dx[n, s] = sum of dy[n, k] with indices[n, k]
// == s, added in the order of k
inline Kernel<void(const Tensor& dy, const Tensor& indices, Tensor& dx)> scatter_add_rows{"scatter_add_rows"};

}  // namespace saccade::kernels
