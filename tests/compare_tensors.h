// Comparisons of tensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/tensor.h"

namespace saccade {

// Both are on the host, or undefined.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  Tensor x = a.contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

// Largest difference in units of the rms of the expected values; infinity if there is a NaN.
inline double error_of(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.shape(), expected.shape());
  auto a = got.to(Device::kCpu).to_vector<double>(), b = expected.to_vector<double>();
  double worst = 0, square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double difference = std::abs(a[i] - b[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    square += b[i] * b[i];
  }
  return worst / (std::sqrt(square / static_cast<double>(std::max<size_t>(a.size(), 1))) + 1e-30);
}

}  // namespace saccade
