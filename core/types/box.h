// A rectangle in an image, and how much two of them overlap.
#pragma once

#include <algorithm>

namespace saccade {

// Corners in pixels: pixel i of an axis reaches from i to i + 1. x1 <= x2 and y1 <= y2 where nothing else is
// said.
struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;

  double width() const { return x2 - x1; }
  double height() const { return y2 - y1; }
  double area() const { return width() * height(); }
  bool operator==(const Box&) const = default;
};

// The area that both cover; 0 where they only touch.
inline double intersection(const Box& a, const Box& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  return width <= 0 || height <= 0 ? 0 : width * height;
}

// Intersection over union, from 0 to 1; 0 where they have no area in common.
inline double iou(const Box& a, const Box& b) {
  const double common = intersection(a, b);
  return common == 0 ? 0 : common / (a.area() + b.area() - common);
}

}  // namespace saccade
