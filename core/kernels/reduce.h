// Reductions. Sums are cut into pieces by shape, never by thread count.
#pragma once

#include "core/kernel.h"

namespace saccade::kernels {

// count (f64, one element) = number of elements of x (contiguous, floating) that are NaN or infinite
inline Kernel<void(const Tensor& x, Tensor& count)> count_nonfinite{"count_nonfinite"};

}  // namespace saccade::kernels
