// Sixteen floats at a time with GCC's vector extensions: one AVX-512 register, two AVX2 ones, or whatever
// -march offers.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace saccade::cpu {

inline constexpr int kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));

inline Floats broadcast(float x) { return Floats{} + x; }
inline Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Floats load(const bf16* p) {
#ifdef __AVX512F__  // one instruction; g++ 12 makes five of the portable form. (Unmasked forms warn there.)
  auto wide = _mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(wide) << 16);
#endif
  Halves h;
  std::memcpy(&h, p, sizeof h);
  auto bits = __builtin_convertvector(h, uint32_t __attribute__((vector_size(64)))) << 16;
  return reinterpret_cast<Floats>(bits);
}
inline Ints load(const int32_t* p) {
  Ints v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Ints load(const uint8_t* p) {
#ifdef __AVX512F__
  auto low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return reinterpret_cast<Ints>(_mm512_maskz_cvtepu8_epi32(0xFFFF, low));
#endif
  uint8_t __attribute__((vector_size(16))) bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(__builtin_convertvector(bytes, Halves), Ints);
}
inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }
inline void store(int32_t* p, Ints v) { std::memcpy(p, &v, sizeof v); }
// Rounds to nearest even, as the bf16 type does; a NaN stays a NaN. (The instruction takes subnormals as 0.)
inline void store(bf16* p, Floats v) {
#ifdef __AVX512BF16__
  auto rounded_by_cpu = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(v));
  std::memcpy(p, &rounded_by_cpu, sizeof rounded_by_cpu);
  return;
#endif
  Ints u = reinterpret_cast<Ints>(v);
  Ints rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;
  Ints nan = (u >> 16) | 0x40;
  rounded = (v == v) ? rounded : nan;
  Halves h = __builtin_convertvector(rounded, Halves);
  std::memcpy(p, &h, sizeof h);
}
// The first `count` elements, zeros behind them.
template <class T>
inline Floats load_some(const T* p, int64_t count) {
  T buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
  return load(buffer);
}
template <class T>
inline void store_some(T* p, Floats v, int64_t count) {
  T buffer[kLanes];
  store(buffer, v);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
}

inline Floats max(Floats a, Floats b) { return a > b ? a : b; }
inline Floats min(Floats a, Floats b) { return a < b ? a : b; }
inline Ints max(Ints a, Ints b) { return a > b ? a : b; }
inline Ints min(Ints a, Ints b) { return a < b ? a : b; }

// Sums and maxima over the lanes, as a tree: the same order everywhere.
inline float sum(Floats v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return v[0] + v[1];
}
inline float maximum(Floats v) {
  v = max(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = max(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = max(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return v[0] > v[1] ? v[0] : v[1];
}
// Lane k of the result is sum(x[k]): sixteen sums for 45 instructions.
inline Floats sums(const Floats (&x)[kLanes]) {
  Floats a[8], b[4], c[2];
  for (int i = 0; i < 8; ++i)
    a[i] =
        __builtin_shufflevector(x[i], x[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(x[i], x[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  for (int i = 0; i < 4; ++i)
    b[i] =
        __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
        __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  for (int i = 0; i < 2; ++i)
    c[i] =
        __builtin_shufflevector(b[i], b[i + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
        __builtin_shufflevector(b[i], b[i + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  return __builtin_shufflevector(c[0], c[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
         __builtin_shufflevector(c[0], c[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}

// Largest integer not above x, for |x| < 2^31.
inline Ints floor_to_int(Floats x) {
  Ints t = __builtin_convertvector(x, Ints);
  return t + (__builtin_convertvector(t, Floats) > x);  // a true comparison is -1
}

// e^x to about 1e-7 relative; 0 below -87, saturates above 88; a NaN stays a NaN.
inline Floats exp(Floats x) {
  Floats y = x < -87.0f ? broadcast(-87.0f) : x;
  y = y > 88.0f ? broadcast(88.0f) : y;
  Floats n = (y * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounds to an integer
  Floats r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Ints scale = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats e = p * reinterpret_cast<Floats>(scale);
  return x < -87.0f ? Floats{} : e;
}

}  // namespace saccade::cpu
