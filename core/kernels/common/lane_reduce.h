// Sums and maxima of a run of elements in a fixed number of lanes (element i goes to lane i % kLanes), which
// compilers map to vector registers; the lanes are combined as a tree. The order depends only on the length.
#pragma once

#include "core/tensor/dtype.h"
#include "core/tensor/hd.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// The sum over i in [0, n) of f(i), in type A.
template <class A, int kLanes = 32, class F>
SACCADE_HD A lane_sum(int64_t n, const F& f) {
  A acc[kLanes];
  for (int l = 0; l < kLanes; ++l) acc[l] = A(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) acc[l] += f(i + l);
  int rest = static_cast<int>(n - i);
  for (int l = 0; l < rest; ++l) acc[l] += f(i + l);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) acc[l] += acc[l + width];
  return acc[0];
}

// The maximum over i in [0, n) of f(i), n >= 1; NaN if one is NaN.
template <class A, int kLanes = 32, class F>
SACCADE_HD A lane_max(int64_t n, const F& f) {
  A acc[kLanes];
  A first = f(0);
  for (int l = 0; l < kLanes; ++l) acc[l] = first;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) acc[l] = math::max(acc[l], f(i + l));
  int rest = static_cast<int>(n - i);
  for (int l = 0; l < rest; ++l) acc[l] = math::max(acc[l], f(i + l));
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) acc[l] = math::max(acc[l], acc[l + width]);
  return acc[0];
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
