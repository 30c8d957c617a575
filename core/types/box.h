// Rectangles in an image, and their overlap.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "core/types/image_size.h"

namespace saccade {

// Corners in pixels: pixel i of an axis reaches from i to i + 1. Unless stated otherwise, x1 <= x2 and y1 <=
// y2.
struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;

  double width() const { return x2 - x1; }
  double height() const { return y2 - y1; }
  double area() const { return width() * height(); }
  bool operator==(const Box&) const = default;
};

inline Box box_of_corner(const std::array<double, 4>& xywh) {
  const auto [x, y, width, height] = xywh;
  return {x, y, x + width, y + height};
}
inline Box box_of_centre(double cx, double cy, double width, double height) {
  return {cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2};
}

inline Box moved(const Box& b, double x, double y) { return {b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y}; }
inline Box scaled(const Box& b, double x, double y) { return {b.x1 * x, b.y1 * y, b.x2 * x, b.y2 * y}; }
inline Box around(const Box& a, const Box& b) {
  return {std::min(a.x1, b.x1), std::min(a.y1, b.y1), std::max(a.x2, b.x2), std::max(a.y2, b.y2)};
}
// Returns the smallest box around points x, y, x, y, ...; without points, the neutral element of around().
inline Box box_around(const std::vector<double>& points) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Box box{kFar, kFar, -kFar, -kFar};
  for (size_t i = 0; i + 1 < points.size(); i += 2)
    box = around(box, {points[i], points[i + 1], points[i], points[i + 1]});
  return box;
}
// Returns the part inside the image; if there is none, a box of zero width or height.
inline Box cut(const Box& b, ImageSize image) {
  const auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
  return {std::clamp(b.x1, 0.0, w), std::clamp(b.y1, 0.0, h), std::clamp(b.x2, 0.0, w),
          std::clamp(b.y2, 0.0, h)};
}

// Returns the area that both cover; 0 if they only touch.
inline double intersection(const Box& a, const Box& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  return width <= 0 || height <= 0 ? 0 : width * height;
}

// Intersection over union, from 0 to 1; 0 if they have no area in common.
inline double iou(const Box& a, const Box& b) {
  const double common = intersection(a, b);
  return common == 0 ? 0 : common / (a.area() + b.area() - common);
}

}  // namespace saccade
