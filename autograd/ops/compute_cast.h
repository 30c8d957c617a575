// Casting of the inputs of matrix products and convolutions: activations and weights take the compute dtype,
// while the bias, which is added to the f32 sums, keeps full precision.
#pragma once

#include "autograd/function.h"
#include "core/kernels/bf16_shadow/bf16_shadow.h"

namespace saccade::detail {

// The dtype an op of matrix products works in: f64 when any input is f64, otherwise execution().compute.
inline DType compute_dtype(const Tensors& in) {
  for (const Tensor& t : in)
    if (t.defined() && t.dtype() == DType::kF64) return DType::kF64;
  return execution().compute;
}
// A parameter in the dtype of the computation.
inline Tensor to_compute(const Tensor& parameter, DType compute) {
  return compute == DType::kBF16 ? in_bf16(parameter) : parameter.to(compute);
}
// That of its sums: bias, statistics and weight gradients.
inline DType sum_dtype(DType compute) { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace saccade::detail
