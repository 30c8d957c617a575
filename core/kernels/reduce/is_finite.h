// Whether numbers are some.
#pragma once

#include "core/kernels/reduce/reduce.h"

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
