// Boxes as what moves others to them (Girshick et al. 2014): shifts in sides and logarithms of how the sides
// grow, over a deviation each.
#pragma once

#include <array>

#include "autograd/ops.h"

namespace saccade {

// Boxes are corners, (x1, y1, x2, y2); deltas (dx, dy, dw, dh).
struct BoxCoder {
  // Sides grow, and shrink, by at most ln(1000 / 16).
  static constexpr double kMaxGrowth = 4.135166556742356;

  std::array<double, 4> deviations = {1, 1, 1, 1};
  bool limits_shrinking = true;  // torchvision limits how they grow alone

  // What decode() makes `box` of `from`, whose sides are not 0.
  std::array<float, 4> encode(const float* from, const float* box) const;
  std::array<float, 4> decode(const float* from, const float* deltas) const;
  // deltas [..., 4], from f32 [..., 4] that broadcasts to it -> corners like deltas, in f32,
  // where the deltas are
  Var decode(const Var& deltas, const Tensor& from) const;
};

// The part of the boxes, [N, K, 4] as corners, that is in images of these sizes (width, height), f32
// [N, 2]; those outside have no side.
Var cut_boxes(const Var& boxes, const Tensor& sizes);

}  // namespace saccade
