// Shared by the normalisations: dtypes and checks of their per-channel inputs.
#pragma once

#include <initializer_list>
#include <string_view>

#include "autograd/function.h"

namespace saccade::detail {

// Statistics that are not inputs of the graph: f32, or f64 for f64 x.
inline Tensor as_statistic(const Tensor& t, const Tensor& x) {
  return t.to(sum_dtype(x.dtype())).contiguous();
}
inline Tensor empty_statistic(const Shape& shape, const Tensor& x) {
  return Tensor::empty(shape, sum_dtype(x.dtype()), x.device());
}
struct NamedShape {
  std::string_view name;
  const Shape& shape;
};
// Checks that x has channels and that each of the others has one number per channel.
inline void check_channels(std::string_view op, const Var& x, std::initializer_list<NamedShape> others) {
  SACCADE_CHECK(x.rank() >= 1, "[{}] x, got a scalar, expected [..., C]", op);
  for (const auto& [name, shape] : others)
    SACCADE_CHECK(shape == Shape{x.dim(-1)}, "[{}] {}, got shape {}, expected [{}] for x {}", op, name, shape,
                  x.dim(-1), x.shape());
}
// [..., C] -> [rows, C]
inline Tensor as_rows(const Tensor& t) {
  int64_t c = t.dim(-1);
  return t.contiguous().reshape({c == 0 ? 0 : t.numel() / c, c});
}

}  // namespace saccade::detail
