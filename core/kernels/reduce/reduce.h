// Reductions. Sums are cut into chunks by shape, never by thread count, and the chunks are added as a tree;
// f32 and bf16 add in f32, f64 in f64.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y = scale * x summed over the axes along which y's shape is broadcast to x's (y may have fewer axes): the
// gradient of broadcasting. x contiguous and floating, y contiguous, of x's dtype or of the type it
// accumulates in.
inline Kernel<void(const Tensor& x, double scale, Tensor& y)> sum_to_shape{"sum_to_shape"};
// What it comes down to: y [outer, inner] = scale * sum over the middle axis of x [outer, n, inner], none of
// them 0; dtypes as above, all contiguous and given by their shapes only.
inline Kernel<void(const Tensor& x, double scale, Tensor& y)> sum_middle{"sum_middle"};
// count (f64, one element) = number of elements of x (contiguous, floating) that are NaN or infinite
inline Kernel<void(const Tensor& x, Tensor& count)> count_nonfinite{"count_nonfinite"};

}  // namespace saccade::kernels

namespace saccade {

// How many elements are NaN or infinite, f64 [] on the device of the tensor, which is of floats.
inline Tensor nonfinite_count(const Tensor& tensor) {
  Tensor count = Tensor::empty({}, DType::kF64, tensor.device());
  kernels::count_nonfinite(tensor.contiguous(), count);
  return count;
}

// Whether no element is NaN or infinite; true of types that have neither.
inline bool is_finite(const Tensor& tensor) {
  return !is_float(tensor.dtype()) || nonfinite_count(tensor).item() == 0;
}

}  // namespace saccade
