// Schemes that divide 3x3 convolutions with padding 1 into tiles, in each direction. A scheme has
//   kIn, kStep    the positions of the map that a tile reads, the first one kBorder before its place,
//                 and the distance of two tiles
//   kOut          the positions of the result that a tile makes; also the distance of two tiles there
//   kPoints       the points that are multiplied; matrix(point) is the one of kMatrices values of the
//                 taps that belongs to a point
// and the transforms between them; also those of the weights' gradient, if it supports that.
#pragma once

#include "core/kernels/conv2d/winograd_transforms_cpu.h"

namespace saccade::cpu::winograd {

// For stride 1.
template <class Transforms, int kTile>
struct Same : Transforms {
  static constexpr int kIn = kTile + 2, kStep = kTile, kOut = kTile, kBorder = 1;
  static constexpr int kPoints = kIn, kMatrices = kIn;
  static constexpr int matrix(int point) { return point; }
};
using Same4 = Same<SixPoints, 4>;      // F(4x4, 3x3): 36 products for 16 positions instead of 144
using Same3 = Same<FivePoints<3>, 3>;  // F(3x3, 3x3): 25 for 9 instead of 81

// For stride 2: y[i] = g1 x[2i] + (g0 o[i] + g2 o[i + 1]) with o[i] = x[2i - 1]. The part in brackets is
// computed by F(4, 2), four outputs from five points, and g1's products are separate points: 9 for 4 instead
// of 12, in two directions 81 for 16 instead of 144.
struct OddAndEven {
  using Pair = FivePoints<2>;
  static constexpr int kPoints = 9, kMatrices = 6;
  static constexpr int matrix(int point) { return point < 4 ? 0 : point - 3; }

  static void taps(const Floats* g, int64_t from, Floats* u, int64_t to) {
    u[0] = g[from];
    Pair::taps(g, 2 * from, u + to, to);
  }
};

struct Strided : OddAndEven {
  static constexpr int kIn = 9, kStep = 8, kOut = 4, kBorder = 1;

  static void input(const Floats* d, int64_t from, Floats* v, int64_t to) {
    for (int i = 0; i < 4; ++i) v[i * to] = d[(2 * i + 1) * from];
    Pair::input(d, 2 * from, v + 4 * to, to);
  }
  static void taps_gradient(const Floats* u, int64_t from, Floats* g, int64_t to) {
    g[to] = u[0];
    Pair::taps_gradient(u + from, from, g, 2 * to);
  }
  static void output(const Floats* m, int64_t from, Floats* y, int64_t to) {
    Pair::output(m + 4 * from, from, y, to);
    for (int i = 0; i < 4; ++i) y[i * to] += m[i * from];
  }
  static void output_gradient(const Floats* y, int64_t from, Floats* m, int64_t to) {
    for (int i = 0; i < 4; ++i) m[i * to] = y[i * from];
    Pair::output_gradient(y, from, m + 4 * to, to);
  }
};

// The gradient of OddAndEven for the input, with the taps rotated so that g0 and g2 change places: dx[2j] =
// g1 dy[j], dx[2j + 1] = g0 dy[j] + g2 dy[j + 1].
struct Spread : OddAndEven {
  static constexpr int kIn = 5, kStep = 4, kOut = 8, kBorder = 0;

  static void input(const Floats* d, int64_t from, Floats* v, int64_t to) {
    for (int i = 0; i < 4; ++i) v[i * to] = d[i * from];
    Pair::input(d, from, v + 4 * to, to);
  }
  static void output(const Floats* m, int64_t from, Floats* y, int64_t to) {
    for (int i = 0; i < 4; ++i) y[2 * i * to] = m[i * from];
    Pair::output(m + 4 * from, from, y + to, 2 * to);
  }
};

}  // namespace saccade::cpu::winograd
