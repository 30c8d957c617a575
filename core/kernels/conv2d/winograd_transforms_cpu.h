// The transforms of Winograd's minimal filtering algorithms (Lavin and Gray, arXiv:1509.09308) for sixteen
// channels at a time, with positions d of the input, 3x3 taps g and positions Y of the output:
//     Y = A' [(G g G') * (B' d B)] A
// (' transposes, * multiplies point by point). Its gradient for g, with dY given, is
//     dg = G' [(A dY A') * (B' d B)] G
// F(m, r) computes m outputs of r taps from the values at m + r - 1 points: row i of B' is the polynomial of
// all finite points but the i-th, G is the taps' polynomial at the points, divided by the value of that row
// there, and A' holds the powers of the points.
#pragma once

#include "core/kernels/common/vector_cpu.h"

namespace saccade::cpu::winograd {

// F(4, 3) with 0, a, -a, b, -b and infinity. Among a dozen pairs that were tried, these have the smallest
// rounding errors: a fifth of those of 1 and 2.
struct SixPoints {
  static constexpr float kA = 0.75f, kB = 1.375f, kA2 = kA * kA, kB2 = kB * kB;
  static constexpr float kAt0 = kA2 * kB2, kAtA = 2 * kA2 * (kA2 - kB2), kAtB = 2 * kB2 * (kB2 - kA2);

  static void input(const Floats* d, int64_t from, Floats* v, int64_t to) {
    const Floats d0 = d[0], d1 = d[from], d2 = d[2 * from], d3 = d[3 * from], d4 = d[4 * from],
                 d5 = d[5 * from];
    const Floats even_a = d4 - d2 * kB2, odd_a = (d3 - d1 * kB2) * kA;
    const Floats even_b = d4 - d2 * kA2, odd_b = (d3 - d1 * kA2) * kB;
    v[0] = d0 * (kA2 * kB2) - d2 * (kA2 + kB2) + d4;
    v[to] = even_a + odd_a;
    v[2 * to] = even_a - odd_a;
    v[3 * to] = even_b + odd_b;
    v[4 * to] = even_b - odd_b;
    v[5 * to] = d1 * (kA2 * kB2) - d3 * (kA2 + kB2) + d5;
  }
  static void taps(const Floats* g, int64_t from, Floats* u, int64_t to) {
    const Floats g0 = g[0], g1 = g[from], g2 = g[2 * from];
    const Floats even_a = g0 * (1 / kAtA) + g2 * (kA2 / kAtA), odd_a = g1 * (kA / kAtA);
    const Floats even_b = g0 * (1 / kAtB) + g2 * (kB2 / kAtB), odd_b = g1 * (kB / kAtB);
    u[0] = g0 * (1 / kAt0);
    u[to] = even_a + odd_a;
    u[2 * to] = even_a - odd_a;
    u[3 * to] = even_b + odd_b;
    u[4 * to] = even_b - odd_b;
    u[5 * to] = g2;
  }
  static void taps_gradient(const Floats* u, int64_t from, Floats* g, int64_t to) {
    const Floats sum_a = u[from] + u[2 * from], difference_a = u[from] - u[2 * from];
    const Floats sum_b = u[3 * from] + u[4 * from], difference_b = u[3 * from] - u[4 * from];
    g[0] = u[0] * (1 / kAt0) + sum_a * (1 / kAtA) + sum_b * (1 / kAtB);
    g[to] = difference_a * (kA / kAtA) + difference_b * (kB / kAtB);
    g[2 * to] = sum_a * (kA2 / kAtA) + sum_b * (kB2 / kAtB) + u[5 * from];
  }
  static void output(const Floats* m, int64_t from, Floats* y, int64_t to) {
    const Floats sum_a = m[from] + m[2 * from], difference_a = m[from] - m[2 * from];
    const Floats sum_b = m[3 * from] + m[4 * from], difference_b = m[3 * from] - m[4 * from];
    y[0] = m[0] + sum_a + sum_b;
    y[to] = difference_a * kA + difference_b * kB;
    y[2 * to] = sum_a * kA2 + sum_b * kB2;
    y[3 * to] = difference_a * (kA2 * kA) + difference_b * (kB2 * kB) + m[5 * from];
  }
  static void output_gradient(const Floats* y, int64_t from, Floats* m, int64_t to) {
    const Floats y0 = y[0], y1 = y[from], y2 = y[2 * from], y3 = y[3 * from];
    const Floats even_a = y0 + y2 * kA2, odd_a = y1 * kA + y3 * (kA2 * kA);
    const Floats even_b = y0 + y2 * kB2, odd_b = y1 * kB + y3 * (kB2 * kB);
    m[0] = y0;
    m[to] = even_a + odd_a;
    m[2 * to] = even_a - odd_a;
    m[3 * to] = even_b + odd_b;
    m[4 * to] = even_b - odd_b;
    m[5 * to] = y3;
  }
};

// F(3, 3) and F(4, 2) with a, -a, b, -b and infinity. The largest errors are as large as those of plain sums.
template <int kTaps>
struct FivePoints {
  static constexpr float kA = 0.5f, kB = 1.25f, kA2 = kA * kA, kB2 = kB * kB;
  static constexpr float kAtA = 2 * kA * (kA2 - kB2), kAtB = 2 * kB * (kB2 - kA2);
  static constexpr int kLast = 5 - kTaps;  // the output to which infinity adds

  static void input(const Floats* d, int64_t from, Floats* v, int64_t to) {
    const Floats d0 = d[0], d1 = d[from], d2 = d[2 * from], d3 = d[3 * from], d4 = d[4 * from];
    const Floats odd_a = d3 - d1 * kB2, even_a = (d2 - d0 * kB2) * kA;
    const Floats odd_b = d3 - d1 * kA2, even_b = (d2 - d0 * kA2) * kB;
    v[0] = odd_a + even_a;
    v[to] = odd_a - even_a;
    v[2 * to] = odd_b + even_b;
    v[3 * to] = odd_b - even_b;
    v[4 * to] = d0 * (kA2 * kB2) - d2 * (kA2 + kB2) + d4;
  }
  static void taps(const Floats* g, int64_t from, Floats* u, int64_t to) {
    const Floats g0 = g[0], g1 = g[from];
    Floats even_a = g0 * (1 / kAtA), even_b = g0 * (1 / kAtB);
    const Floats odd_a = g1 * (kA / kAtA), odd_b = g1 * (kB / kAtB);
    if constexpr (kTaps == 3) {
      even_a += g[2 * from] * (kA2 / kAtA);
      even_b += g[2 * from] * (kB2 / kAtB);
    }
    u[0] = odd_a + even_a;
    u[to] = odd_a - even_a;
    u[2 * to] = odd_b + even_b;
    u[3 * to] = odd_b - even_b;
    u[4 * to] = g[(kTaps - 1) * from];
  }
  static void taps_gradient(const Floats* u, int64_t from, Floats* g, int64_t to) {
    const Floats sum_a = u[0] + u[from], difference_a = u[0] - u[from];
    const Floats sum_b = u[2 * from] + u[3 * from], difference_b = u[2 * from] - u[3 * from];
    const Floats g1 = sum_a * (kA / kAtA) + sum_b * (kB / kAtB), at_infinity = u[4 * from];
    g[0] = difference_a * (1 / kAtA) + difference_b * (1 / kAtB);
    if constexpr (kTaps == 3) {
      g[to] = g1;
      g[2 * to] = difference_a * (kA2 / kAtA) + difference_b * (kB2 / kAtB) + at_infinity;
    } else {
      g[to] = g1 + at_infinity;
    }
  }
  static void output(const Floats* m, int64_t from, Floats* y, int64_t to) {
    const Floats sum_a = m[0] + m[from], difference_a = m[0] - m[from];
    const Floats sum_b = m[2 * from] + m[3 * from], difference_b = m[2 * from] - m[3 * from];
    const Floats at_infinity = m[4 * from];
    y[0] = sum_a + sum_b;
    y[to] = difference_a * kA + difference_b * kB;
    y[2 * to] = sum_a * kA2 + sum_b * kB2;
    if constexpr (kTaps == 2) y[3 * to] = difference_a * (kA2 * kA) + difference_b * (kB2 * kB);
    y[kLast * to] += at_infinity;
  }
  static void output_gradient(const Floats* y, int64_t from, Floats* m, int64_t to) {
    const Floats y0 = y[0], y1 = y[from], y2 = y[2 * from];
    const Floats even_a = y0 + y2 * kA2, even_b = y0 + y2 * kB2;
    Floats odd_a = y1 * kA, odd_b = y1 * kB;
    if constexpr (kTaps == 2) {
      odd_a += y[3 * from] * (kA2 * kA);
      odd_b += y[3 * from] * (kB2 * kB);
    }
    m[0] = even_a + odd_a;
    m[to] = even_a - odd_a;
    m[2 * to] = even_b + odd_b;
    m[3 * to] = even_b - odd_b;
    m[4 * to] = y[kLast * from];
  }
};

// Transforms a square on both sides, by Map(from, stride, to, stride) in each direction: reads in(row,
// column) and calls out(row, column, value) for each number of the result.
template <int kFrom, int kTo, auto Map, class In, class Out>
inline void transform(const In& in, const Out& out) {
  Floats half[kFrom][kTo];  // columns are transformed
#pragma GCC unroll 9
  for (int i = 0; i < kFrom; ++i) {
    Floats row[kFrom];
#pragma GCC unroll 9
    for (int j = 0; j < kFrom; ++j) row[j] = in(i, j);
    Map(row, 1, half[i], 1);
  }
#pragma GCC unroll 9
  for (int j = 0; j < kTo; ++j) {
    Floats column[kTo];
    Map(&half[0][j], kTo, column, 1);
#pragma GCC unroll 9
    for (int i = 0; i < kTo; ++i) out(i, j, column[i]);
  }
}

}  // namespace saccade::cpu::winograd
