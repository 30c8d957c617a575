// The condition under which a box suppresses another one.
#pragma once

#include <cmath>

#include "core/tensor/hd.h"

namespace saccade::kernels {

// The largest float not above the threshold: a float IoU is above both or neither.
inline float float_threshold(double threshold) {
  const auto t = static_cast<float>(threshold);
  return static_cast<double>(t) > threshold ? std::nextafter(t, -INFINITY) : t;
}

inline namespace SACCADE_SIDE {

struct OverlapBox {
  float x1, y1, x2, y2;
  SACCADE_HD float area() const { return (x2 - x1) * (y2 - y1); }
};

SACCADE_HD bool overlaps(const OverlapBox& a, float area_a, const OverlapBox& b, float area_b,
                         float threshold) {
  const float left = a.x1 > b.x1 ? a.x1 : b.x1, right = a.x2 < b.x2 ? a.x2 : b.x2;
  const float top = a.y1 > b.y1 ? a.y1 : b.y1, bottom = a.y2 < b.y2 ? a.y2 : b.y2;
  const float width = right - left > 0 ? right - left : 0.0f, height = bottom - top > 0 ? bottom - top : 0.0f;
  const float common = width * height;
  return common / (area_a + area_b - common) > threshold;  // NaN, hence false, for two boxes without area
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
