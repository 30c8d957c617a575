// What the normalisations share: dtypes and checks of their per-channel inputs.
#pragma once

#include <string_view>

#include "autograd/function.h"

namespace saccade::detail {

// Statistics that are no inputs of the graph: f32, or f64 for f64 x.
inline Tensor as_statistic(const Tensor& t, const Tensor& x) {
  return t.to(sum_dtype(x.dtype())).contiguous();
}
inline Tensor empty_statistic(const Shape& shape, const Tensor& x) {
  return Tensor::empty(shape, sum_dtype(x.dtype()), x.device());
}
inline void check_channels(std::string_view op, std::string_view what, const Shape& got, const Shape& x) {
  SACCADE_CHECK(got == Shape{x[-1]}, "[{}] {}, got shape {}, expected [{}] for x {}", op, what, got, x[-1],
                x);
}
// [..., C] -> [rows, C]
inline Tensor as_rows(const Tensor& t) {
  int64_t c = t.dim(-1);
  return t.contiguous().reshape({c == 0 ? 0 : t.numel() / c, c});
}

}  // namespace saccade::detail
