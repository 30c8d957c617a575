// One bilinear sample of an [H, W] map with zeros outside: shared by grid sampling and deformable attention.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/tensor/hd.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// The four cells around pixel position (x, y), where cell (i, j) has its centre at x = j, y = i. Order of the
// corners: (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1). A = float or double.
template <class A>
struct Bilinear {
  int64_t cell[4];  // row-major index into the map, -1 outside
  A weight[4];
  A fx, fy;      // fractions of x and y
  bool touches;  // at least one corner lies inside; false for NaN positions

  SACCADE_HD static Bilinear at(A x, A y, int64_t height, int64_t width) {
    Bilinear b;
    b.touches = x > A(-1) && y > A(-1) && x < static_cast<A>(width) && y < static_cast<A>(height);
    if (!b.touches) {
      for (int c = 0; c < 4; ++c) {
        b.cell[c] = -1;
        b.weight[c] = 0;
      }
      b.fx = b.fy = 0;
      return b;
    }
    A xf = std::floor(x), yf = std::floor(y);
    int64_t x0 = static_cast<int64_t>(xf), y0 = static_cast<int64_t>(yf);
    b.fx = x - xf;
    b.fy = y - yf;
    for (int c = 0; c < 4; ++c) {
      int64_t xi = x0 + (c & 1), yi = y0 + (c >> 1);
      b.cell[c] = xi >= 0 && yi >= 0 && xi < width && yi < height ? yi * width + xi : -1;
      b.weight[c] = (c & 1 ? b.fx : 1 - b.fx) * (c >> 1 ? b.fy : 1 - b.fy);
    }
    return b;
  }
  // Given d[c] = d(result)/d(weight of corner c), 0 outside: the derivatives by x and y.
  SACCADE_HD A slope_x(const A (&d)[4]) const { return (1 - fy) * (d[1] - d[0]) + fy * (d[3] - d[2]); }
  SACCADE_HD A slope_y(const A (&d)[4]) const { return (1 - fx) * (d[2] - d[0]) + fx * (d[3] - d[1]); }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
