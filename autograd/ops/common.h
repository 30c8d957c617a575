// Shared by the op implementations.
#pragma once

#include "autograd/function.h"
#include "core/kernels/reduce/reduce.h"

namespace saccade {

// The gradient of broadcasting: g summed to `shape` (times scale), or g itself if nothing is to be done.
inline Tensor sum_to(const Tensor& g, const Shape& shape, double scale = 1) {
  if (g.shape() == shape && scale == 1) return g;
  Tensor y = Tensor::empty(shape, g.dtype(), g.device());
  kernels::sum_to_shape(g.contiguous(), scale, y);
  return y;
}

}  // namespace saccade
