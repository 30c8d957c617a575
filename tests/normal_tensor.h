// Values for tests of kernels.
#pragma once

#include "core/tensor/philox.h"
#include "core/tensor/tensor.h"

namespace saccade {

// Returns f32 values of a standard normal distribution.
inline Tensor normal_tensor(Rng& rng, const Shape& shape) {
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
  return t;
}
inline Tensor normal_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  return normal_tensor(rng, shape);
}

}  // namespace saccade
