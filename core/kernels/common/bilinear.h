// One bilinear sample of an [H, W] map with zeros outside; shared by grid sampling, deformable attention and
// sampled position biases.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/tensor/hd.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// The four cells around pixel position (x, y), where cell (i, j) has its centre at x = j, y = i. Order of the
// corners: (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1). A: float or double; I: the type of cell
// indices.
template <class A, class I = int64_t>
struct Bilinear {
  I x0 = 0, y0 = 0;      // at least -1
  A fx = 0, fy = 0;      // fractions of x and y
  bool touches = false;  // at least one corner is inside; false for NaN positions

  SACCADE_HD static Bilinear at(A x, A y, I height, I width) {
    Bilinear b;
    b.touches = x > A(-1) && y > A(-1) && x < static_cast<A>(width) && y < static_cast<A>(height);
    if (!b.touches) return b;
    A xf = std::floor(x), yf = std::floor(y);
    b.x0 = static_cast<I>(xf);
    b.y0 = static_cast<I>(yf);
    b.fx = x - xf;
    b.fy = y - yf;
    return b;
  }
  // Row-major index of a corner in the map, -1 outside.
  SACCADE_HD I cell(int corner, I height, I width) const {
    I x = x0 + (corner & 1), y = y0 + (corner >> 1);
    return touches && x >= 0 && y >= 0 && x < width && y < height ? y * width + x : I(-1);
  }
  SACCADE_HD A weight(int corner) const { return (corner & 1 ? fx : 1 - fx) * (corner >> 1 ? fy : 1 - fy); }
  // Given d[c] = d(result)/d(weight of corner c), 0 outside, returns the derivative by x or y.
  SACCADE_HD A slope_x(const A (&d)[4]) const { return (1 - fy) * (d[1] - d[0]) + fy * (d[3] - d[2]); }
  SACCADE_HD A slope_y(const A (&d)[4]) const { return (1 - fx) * (d[2] - d[0]) + fx * (d[3] - d[1]); }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
