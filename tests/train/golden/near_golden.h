// Comparison with golden values that were computed in f64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/tensor/tensor.h"

namespace saccade {

inline double largest_in(const Tensor& t) {
  double largest = 0;
  for (double x : t.to_vector<double>()) largest = std::max(largest, std::abs(x));
  return largest;
}

// max |ours - golden| <= 1e-4 (max |golden| + slack); the slack is for values that are zero by symmetry
inline void expect_near_golden(const Tensor& ours, const Tensor& golden, const std::string& what,
                               double slack = 0) {
  auto a = ours.to_vector<double>(), b = golden.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << what;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  EXPECT_LE(worst, 1e-4 * (largest_in(golden) + slack)) << what;
}

}  // namespace saccade
