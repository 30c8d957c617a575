// The transforms of Winograd's F(4x4, 3x3) for sixteen channels at a time, with the points 0, a, -a, b, -b and infinity:
//     Y = A' [(G g G') * (B' d B)] A        d: 6x6 positions of the input, g: 3x3 taps, Y: 4x4 positions of the output
// (' transposes, * multiplies point by point). Its gradient for g, with dY given, is
//     dg = G' [(A dY A') * (B' d B)] G
#pragma once

#include "core/kernels/common/vector_cpu.h"

namespace saccade::cpu::winograd {

inline constexpr int kTile = 4;    // positions of the output, in either direction
inline constexpr int kPoints = 6;  // in either direction

// Of a dozen pairs that were tried these round least: a fifth of 1 and 2.
inline constexpr float kA = 0.75f, kB = 1.375f, kA2 = kA * kA, kB2 = kB * kB;

struct InputTransform {  // B': row i is the polynomial of all finite points but the i-th
  static constexpr int kFrom = 6, kTo = 6;
  static void apply(const Floats* d, int64_t from, Floats* v, int64_t to) {
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
};

// What row i of B' is at the i-th point, by which the taps' value there is divided.
inline constexpr float kAt0 = kA2 * kB2, kAtA = 2 * kA2 * (kA2 - kB2), kAtB = 2 * kB2 * (kB2 - kA2);

struct TapsTransform {  // G: the taps' polynomial at the points
  static constexpr int kFrom = 3, kTo = 6;
  static void apply(const Floats* g, int64_t from, Floats* u, int64_t to) {
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
};

struct TapsGradient {  // G'
  static constexpr int kFrom = 6, kTo = 3;
  static void apply(const Floats* u, int64_t from, Floats* g, int64_t to) {
    const Floats sum_a = u[from] + u[2 * from], difference_a = u[from] - u[2 * from];
    const Floats sum_b = u[3 * from] + u[4 * from], difference_b = u[3 * from] - u[4 * from];
    g[0] = u[0] * (1 / kAt0) + sum_a * (1 / kAtA) + sum_b * (1 / kAtB);
    g[to] = difference_a * (kA / kAtA) + difference_b * (kB / kAtB);
    g[2 * to] = sum_a * (kA2 / kAtA) + sum_b * (kB2 / kAtB) + u[5 * from];
  }
};

struct OutputTransform {  // A': powers of the points
  static constexpr int kFrom = 6, kTo = 4;
  static void apply(const Floats* m, int64_t from, Floats* y, int64_t to) {
    const Floats sum_a = m[from] + m[2 * from], difference_a = m[from] - m[2 * from];
    const Floats sum_b = m[3 * from] + m[4 * from], difference_b = m[3 * from] - m[4 * from];
    y[0] = m[0] + sum_a + sum_b;
    y[to] = difference_a * kA + difference_b * kB;
    y[2 * to] = sum_a * kA2 + sum_b * kB2;
    y[3 * to] = difference_a * (kA2 * kA) + difference_b * (kB2 * kB) + m[5 * from];
  }
};

struct OutputGradient {  // A
  static constexpr int kFrom = 4, kTo = 6;
  static void apply(const Floats* y, int64_t from, Floats* m, int64_t to) {
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

// A square on both sides: in(row, column) is read, out(row, column, value) is called for each number of the result.
template <class Transform, class In, class Out>
inline void transform(const In& in, const Out& out) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  Floats half[kFrom][kTo];  // columns are done
#pragma GCC unroll 6
  for (int i = 0; i < kFrom; ++i) {
    Floats row[kFrom];
#pragma GCC unroll 6
    for (int j = 0; j < kFrom; ++j) row[j] = in(i, j);
    Transform::apply(row, 1, half[i], 1);
  }
#pragma GCC unroll 6
  for (int j = 0; j < kTo; ++j) {
    Floats column[kTo];
    Transform::apply(&half[0][j], kTo, column, 1);
#pragma GCC unroll 6
    for (int i = 0; i < kTo; ++i) out(i, j, column[i]);
  }
}

}  // namespace saccade::cpu::winograd
