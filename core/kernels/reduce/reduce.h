// Reductions. Sums are split into chunks by shape, never by thread count, and the chunks are added as a tree;
// f32 and bf16 are added in f32, f64 in f64.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y = scale * x summed over the axes along which y's shape is broadcast to x's (y may have fewer axes): the
// gradient of broadcasting. x is contiguous and floating, y contiguous, of x's dtype or its accumulation
// type.
inline Kernel<void(const Tensor& x, double scale, Tensor& y)> sum_to_shape{"sum_to_shape"};
// The underlying reduction: y [outer, inner] = scale * sum over the middle axis of x [outer, n, inner], none
// of them 0; dtypes as above; all contiguous and described only by their shapes.
inline Kernel<void(const Tensor& x, double scale, Tensor& y)> sum_middle{"sum_middle"};
// count (f64, one element) = the number of elements of x (contiguous, floating) that are NaN or infinite
inline Kernel<void(const Tensor& x, Tensor& count)> count_nonfinite{"count_nonfinite"};

}  // namespace saccade::kernels

namespace saccade {

// The number of elements that are NaN or infinite, f64 [] on the device of the tensor, which is floating.
inline Tensor nonfinite_count(const Tensor& tensor) {
  Tensor count = Tensor::empty({}, DType::kF64, tensor.device());
  kernels::count_nonfinite(tensor.contiguous(), count);
  return count;
}

// Returns whether no element is NaN or infinite; true for types that have neither.
inline bool is_finite(const Tensor& tensor) {
  return !is_float(tensor.dtype()) || nonfinite_count(tensor).item() == 0;
}

}  // namespace saccade
