// Encodes boxes relative to other boxes (Girshick et al. 2014): shifts in units of the sides and logarithms
// of the growth of the sides, each divided by a deviation.
#pragma once

#include <array>

#include "autograd/ops.h"

namespace saccade {

// Boxes are corners, (x1, y1, x2, y2); deltas (dx, dy, dw, dh).
struct BoxCoder {
  // The largest logarithm by which a side may grow or shrink: ln(1000 / 16).
  static constexpr double kMaxGrowth = 4.135166556742356;

  std::array<double, 4> deviations = {1, 1, 1, 1};
  bool limits_shrinking = true;  // torchvision only limits growth

  // Returns the deltas from which decode() gets `box` out of `from`, whose sides are not 0.
  std::array<float, 4> encode(const float* from, const float* box) const;
  std::array<float, 4> decode(const float* from, const float* deltas) const;
  // deltas [..., 4], from f32 [..., 4] that broadcasts to it -> corners shaped like deltas, in f32,
  // on the device of the deltas
  Var decode(const Var& deltas, const Tensor& from) const;
};

// Clips the boxes, [N, K, 4] as corners, to images of these sizes (width, height), f32 [N, 2]; a box outside
// gets empty sides.
Var cut_boxes(const Var& boxes, const Tensor& sizes);

}  // namespace saccade
