// The tensors of a golden file, which scripts/golden wrote from other implementations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/formats/safetensors.h"

namespace saccade {

class Golden {
 public:
  // `name` is relative to tests/golden.
  explicit Golden(const std::string& name)
      : file_(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/" + name) {}
  Tensor operator[](const std::string& name) const { return file_.read(name); }

 private:
  SafetensorsReader file_;
};

// Largest difference in units of the rms of the expected values.
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
