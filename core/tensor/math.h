// Elementary functions for kernels. The f32 ones are branch-free polynomials that compilers vectorise; their
// largest error is a few ulp (tests/core/math_test.cpp states it). On a GPU, the exponential and the
// reciprocal are CUDA's own, accurate to two ulp. The f64 functions are those of the C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/tensor/hd.h"

namespace saccade::math {

SACCADE_HD float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SACCADE_HD double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// e^r for |r| <= ln(2) / 2 by the polynomial of Cephes' expf, for a number or for each lane of a vector.
// multiply_add(a, b, c) is a * b + c.
template <class F, class MultiplyAdd>
SACCADE_HD F exp_polynomial(F r, MultiplyAdd multiply_add) {
  F p = multiply_add(r, 1.9875691500e-4f, 1.3981999507e-3f);
  p = multiply_add(p, r, 8.3334519073e-3f);
  p = multiply_add(p, r, 4.1665795894e-2f);
  p = multiply_add(p, r, 1.6666665459e-1f);
  p = multiply_add(p, r, 5.0000001201e-1f);
  return multiply_add(p * r, r, r) + 1.0f;
}

// e^x = 2^n e^r with |r| <= ln(2) / 2. Handles overflow, subnormals and NaN.
SACCADE_HD float exp(float x) {
#ifdef __CUDA_ARCH__
  return ::expf(x);
#endif
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer held in the low bits
  float shifted = fma(x, 1.44269504088896341f, kShift);
  float n = shifted - kShift;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = exp_polynomial(r, [](float a, float b, float c) { return fma(a, b, c); });
  // 2^n in two factors, since n reaches from -150 to 128.
  int32_t k = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kShift);
  int32_t half = k >> 1;
  float a = std::bit_cast<float>((half + 127) << 23), b = std::bit_cast<float>((k - half + 127) << 23);
  return p * a * b;
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); polynomial of Cephes' logf. log(0) = -inf, NaN below.
SACCADE_HD float log(float x) {
  bool subnormal = x < std::numeric_limits<float>::min();
  float scaled = subnormal ? x * 0x1p23f : x;
  int32_t bits = std::bit_cast<int32_t>(scaled);
  int32_t e = (bits - 0x3F3504F3) >> 23;  // 0x3F3504F3 is sqrt(1/2)
  float m = std::bit_cast<float>(bits - e * (1 << 23)) - 1.0f;
  float n = static_cast<float>(e) - (subnormal ? 23.0f : 0.0f);
  float p = 7.0376836292e-2f;
  p = fma(p, m, -1.1514610310e-1f);
  p = fma(p, m, 1.1676998740e-1f);
  p = fma(p, m, -1.2420140846e-1f);
  p = fma(p, m, 1.4249322787e-1f);
  p = fma(p, m, -1.6668057665e-1f);
  p = fma(p, m, 2.0000714765e-1f);
  p = fma(p, m, -2.4999993993e-1f);
  p = fma(p, m, 3.3333331174e-1f);
  float m2 = m * m;
  float y = fma(p * m, m2, n * -2.12194440e-4f);
  y = fma(-0.5f, m2, y);
  y = fma(n, 0.693359375f, m + y);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  y = x == kInf ? kInf : y;
  y = x == 0.0f ? -kInf : y;
  return x >= 0.0f ? y : std::numeric_limits<float>::quiet_NaN();
}

// log(1 + x) for x > -1, accurate also where 1 + x rounds.
SACCADE_HD float log1p(float x) {
  float w = 1.0f + x, d = w - 1.0f;
  float y = log(w) * (x / (d == 0.0f ? 1.0f : d));
  return d == 0.0f ? x : y;
}

// 1 / x for x >= 1, infinity included.
SACCADE_HD float reciprocal(float x) {
#ifdef __CUDA_ARCH__
  return __fdividef(1.0f, x);
#endif
  return 1.0f / x;
}

SACCADE_HD float sigmoid(float x) { return reciprocal(1.0f + exp(-x)); }

// Odd polynomial near 0, 1 - 2 / (e^2x + 1) elsewhere.
SACCADE_HD float tanh(float x) {
  float t = std::fabs(x), s = x * x;
  float far = std::copysign(1.0f - 2.0f * reciprocal(exp(2.0f * t) + 1.0f), x);
  float p = -5.590250975e-3f;
  p = fma(p, s, 2.053770684e-2f);
  p = fma(p, s, -5.370909905e-2f);
  p = fma(p, s, 1.333108088840e-1f);
  p = fma(p, s, -3.333326874391e-1f);
  float near = fma(p * s, x, x);
  return t >= 0.625f ? far : near;
}

// Two minimax polynomials (after N. Juffa); one of them is the exponent p of 1 - e^p.
SACCADE_HD float erf(float x) {
  float t = std::fabs(x), s = x * x;
  float far = fma(-1.72853470e-5f, t, 3.83197126e-4f);
  far = fma(far, s, fma(-3.88396438e-3f, t, 2.42546219e-2f));
  far = fma(far, t, -1.06777877e-1f);
  far = fma(far, t, -6.34846687e-1f);
  far = fma(far, t, -1.28717512e-1f);
  far = fma(far, t, -t);
  far = std::copysign(1.0f - exp(far), x);
  float near = -5.96761703e-4f;
  near = fma(near, s, 4.99119423e-3f);
  near = fma(near, s, -2.67681349e-2f);
  near = fma(near, s, 1.12819925e-1f);
  near = fma(near, s, -3.76125336e-1f);
  near = fma(near, s, 1.28379166e-1f);
  near = fma(near, x, x);
  return t > 0.927734375f ? far : near;
}

SACCADE_HD double exp(double x) { return std::exp(x); }
SACCADE_HD double log(double x) { return std::log(x); }
SACCADE_HD double log1p(double x) { return std::log1p(x); }
SACCADE_HD double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
SACCADE_HD double tanh(double x) { return std::tanh(x); }
SACCADE_HD double erf(double x) { return std::erf(x); }

// Propagates NaN: the result of max or min is NaN if either argument is.
template <class A>
SACCADE_HD A max(A a, A b) {
  return ((a > b) | (a != a)) ? a : b;
}
template <class A>
SACCADE_HD A min(A a, A b) {
  return ((a < b) | (a != a)) ? a : b;
}

}  // namespace saccade::math
