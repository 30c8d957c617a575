// Whether numbers are some.
#pragma once

#include "core/kernels/reduce/reduce.h"

namespace saccade {

// Whether no element is NaN or infinite; true of types that have neither.
inline bool is_finite(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return true;
  Tensor count = Tensor::empty({}, DType::kF64, tensor.device());
  kernels::count_nonfinite(tensor.contiguous(), count);
  return count.item() == 0;
}

}  // namespace saccade
