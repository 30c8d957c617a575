// Filling, copying and casting.
#pragma once

#include "core/kernel.h"

namespace saccade::kernels {

// Every element of y (any strides, any dtype) becomes value.
inline Kernel<void(Tensor& y, double value)> fill{"fill"};
// y[i] = x[i], casting; both of one shape and device, any strides.
inline Kernel<void(const Tensor& x, Tensor& y)> copy{"copy"};
// Both contiguous, of one shape and dtype, on different devices. Waits until the copy is done.
inline Kernel<void(const Tensor& x, Tensor& y)> copy_between_devices{"copy_between_devices"};

}  // namespace saccade::kernels
