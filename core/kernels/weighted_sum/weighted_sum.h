// A weighted sum of numbers that are in separate tensors.
#pragma once

#include <span>

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// parts[i] = numbers[i] * factors[i], rounded, and total = their sum, added in order. Everything has one
// dtype, f32 or f64, and one device; numbers[i] and total have one element.
inline Kernel<void(std::span<const Tensor> numbers, std::span<const double> factors, Tensor& parts,
                   Tensor& total)>
    weighted_sum_forward{"weighted_sum_forward"};
// out[i] = dtotal * factors[i]; dtotal has one element.
inline Kernel<void(const Tensor& dtotal, std::span<const double> factors, Tensor& out)> weighted_sum_backward{
    "weighted_sum_backward"};

}  // namespace saccade::kernels
