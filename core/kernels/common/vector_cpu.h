// Sixteen floats at a time with GCC's vector extensions: Floats is one AVX-512 register, or a pair of 256-bit
// vectors on narrower machines (GCC would split a 512-bit vector there into scalars).
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/tensor/dtype.h"
#include "core/tensor/math.h"

namespace saccade::cpu {

inline constexpr int kLanes = 16;

#ifdef __AVX512F__

inline constexpr bool kWideRegisters = true;
using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));

inline Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Ints load(const int32_t* p) {
  Ints v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }
inline void store(int32_t* p, Ints v) { std::memcpy(p, &v, sizeof v); }
inline Floats broadcast(float x) { return x - Floats{}; }  // 0 + x would cost an addition because of -0
inline Floats to_floats(Ints x) { return __builtin_convertvector(x, Floats); }
inline Ints to_ints(Floats x) { return __builtin_convertvector(x, Ints); }  // towards zero
inline Floats bits_to_floats(Ints x) { return reinterpret_cast<Floats>(x); }
inline Ints bits_of(Floats x) { return reinterpret_cast<Ints>(x); }
// One instruction each; g++ 12 makes five of the portable form. (The unmasked forms cause warnings there.)
inline Ints widen(const uint16_t* p) {
  auto x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return reinterpret_cast<Ints>(_mm512_maskz_cvtepu16_epi32(0xFFFF, x));
}
inline Ints widen(const uint8_t* p) {
  auto x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return reinterpret_cast<Ints>(_mm512_maskz_cvtepu8_epi32(0xFFFF, x));
}
inline void narrow(uint16_t* p, Ints x) {
  Halves h = __builtin_convertvector(x, Halves);
  std::memcpy(p, &h, sizeof h);
}
inline Floats select(Ints mask, Floats a, Floats b) { return mask ? a : b; }  // lanes of mask: -1 or 0
inline Ints select(Ints mask, Ints a, Ints b) { return mask ? a : b; }
// The even and the odd elements of the 32 numbers a, b, and the reverse.
inline Floats even(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
inline Floats odd(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
inline Floats interleave_low(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Floats interleave_high(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
using Eight = float __attribute__((vector_size(32)));
inline Eight low_half(Floats x) { return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7); }
inline Eight high_half(Floats x) { return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15); }
// Lane k of the result is the sum of x[k]: sixteen sums with 45 instructions.
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

#else

inline constexpr bool kWideRegisters = false;

using Eight = float __attribute__((vector_size(32)));
using EightInts = int32_t __attribute__((vector_size(32)));

// Two halves with the operators of a vector; a scalar operand is broadcast.
template <class E>
struct Pair {
  using Half = std::conditional_t<std::is_same_v<E, float>, Eight, EightInts>;
  Half low, high;

  Pair() = default;
  Pair(E x) : low(x - Half{}), high(x - Half{}) {}
  Pair(Half a, Half b) : low(a), high(b) {}
  Pair& operator+=(Pair o) { return *this = *this + o; }
  Pair& operator*=(Pair o) { return *this = *this * o; }
  friend Pair operator+(Pair a, Pair b) { return {a.low + b.low, a.high + b.high}; }
  friend Pair operator-(Pair a, Pair b) { return {a.low - b.low, a.high - b.high}; }
  friend Pair operator*(Pair a, Pair b) { return {a.low * b.low, a.high * b.high}; }
  friend Pair operator/(Pair a, Pair b) { return {a.low / b.low, a.high / b.high}; }
  friend Pair operator&(Pair a, Pair b) { return {a.low & b.low, a.high & b.high}; }
  friend Pair operator|(Pair a, Pair b) { return {a.low | b.low, a.high | b.high}; }
  friend Pair operator<<(Pair a, int n) { return {a.low << n, a.high << n}; }
  friend Pair operator>>(Pair a, int n) { return {a.low >> n, a.high >> n}; }
  friend auto operator==(Pair a, Pair b) { return Pair<int32_t>(a.low == b.low, a.high == b.high); }
  friend auto operator<(Pair a, Pair b) { return Pair<int32_t>(a.low < b.low, a.high < b.high); }
  friend auto operator>(Pair a, Pair b) { return Pair<int32_t>(a.low > b.low, a.high > b.high); }
  friend auto operator>=(Pair a, Pair b) { return Pair<int32_t>(a.low >= b.low, a.high >= b.high); }
};
using Floats = Pair<float>;
using Ints = Pair<int32_t>;
using Halves = uint16_t __attribute__((vector_size(16)));

// Half by half, since GCC would copy a whole Pair in smaller pieces, through memory.
template <class E>
inline Pair<E> load(const E* p) {
  Pair<E> v;
  std::memcpy(&v.low, p, sizeof v.low);
  std::memcpy(&v.high, p + 8, sizeof v.high);
  return v;
}
template <class E>
inline void store(E* p, Pair<E> v) {
  std::memcpy(p, &v.low, sizeof v.low);
  std::memcpy(p + 8, &v.high, sizeof v.high);
}
inline Floats broadcast(float x) { return x; }
inline Floats to_floats(Ints x) {
  return {__builtin_convertvector(x.low, Eight), __builtin_convertvector(x.high, Eight)};
}
inline Ints to_ints(Floats x) {
  return {__builtin_convertvector(x.low, EightInts), __builtin_convertvector(x.high, EightInts)};
}
inline Floats bits_to_floats(Ints x) {
  return {reinterpret_cast<Eight>(x.low), reinterpret_cast<Eight>(x.high)};
}
inline Ints bits_of(Floats x) {
  return {reinterpret_cast<EightInts>(x.low), reinterpret_cast<EightInts>(x.high)};
}
inline Ints widen(const uint16_t* p) {
  Halves h[2];
  std::memcpy(h, p, sizeof h);
  return {__builtin_convertvector(h[0], EightInts), __builtin_convertvector(h[1], EightInts)};
}
inline Ints widen(const uint8_t* p) {
  uint16_t wide[kLanes];
  for (int i = 0; i < kLanes; ++i) wide[i] = p[i];
  return widen(wide);
}
inline void narrow(uint16_t* p, Ints x) {
  Halves h[2] = {__builtin_convertvector(x.low, Halves), __builtin_convertvector(x.high, Halves)};
  std::memcpy(p, h, sizeof h);
}
template <class E>
inline Pair<E> select(Ints mask, Pair<E> a, Pair<E> b) {
  return {mask.low ? a.low : b.low, mask.high ? a.high : b.high};
}
inline Eight even_half(Eight a, Eight b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
inline Eight odd_half(Eight a, Eight b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
inline Eight zip_low(Eight a, Eight b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
inline Eight zip_high(Eight a, Eight b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
inline Floats even(Floats a, Floats b) { return {even_half(a.low, a.high), even_half(b.low, b.high)}; }
inline Floats odd(Floats a, Floats b) { return {odd_half(a.low, a.high), odd_half(b.low, b.high)}; }
inline Floats interleave_low(Floats a, Floats b) { return {zip_low(a.low, b.low), zip_high(a.low, b.low)}; }
inline Floats interleave_high(Floats a, Floats b) {
  return {zip_low(a.high, b.high), zip_high(a.high, b.high)};
}
inline Eight low_half(Floats x) { return x.low; }
inline Eight high_half(Floats x) { return x.high; }
// Lane k of the result is the sum of x[k].
inline Eight sums_of_eight(const Floats* x) {
  Eight a[4], b[2];
  for (int i = 0; i < 4; ++i) {
    Eight p = x[i].low + x[i].high, q = x[i + 4].low + x[i + 4].high;
    a[i] = __builtin_shufflevector(p, q, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(p, q, 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 2; ++i)
    b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  return __builtin_shufflevector(b[0], b[1], 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(b[0], b[1], 1, 9, 3, 11, 5, 13, 7, 15);
}
inline Floats sums(const Floats (&x)[kLanes]) { return {sums_of_eight(x), sums_of_eight(x + 8)}; }

#endif

inline Ints load(const uint8_t* p) { return widen(p); }
inline Floats load(const bf16* p) { return bits_to_floats(widen(&p->bits) << 16); }
// Rounds to nearest even, as the bf16 type does, and keeps NaNs. (The instruction treats subnormals as 0.)
inline void store(bf16* p, Floats v) {
#ifdef __AVX512BF16__
  auto rounded_by_cpu = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(v));
  std::memcpy(p, &rounded_by_cpu, sizeof rounded_by_cpu);
  return;
#endif
  Ints u = bits_of(v);
  Ints rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16, nan = (u >> 16) | 0x40;
  narrow(&p->bits, select(v == v, rounded, nan));
}
// Loads the first `count` elements (at most kLanes), followed by zeros.
template <class T>
inline Floats load_some(const T* p, int64_t count) {
  if (count >= kLanes) return load(p);
  T buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
  return load(buffer);
}
template <class T>
inline void store_some(T* p, Floats v, int64_t count) {
  if (count >= kLanes) return store(p, v);
  T buffer[kLanes];
  store(buffer, v);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
}

inline Floats max(Floats a, Floats b) { return select(a > b, a, b); }
inline Floats min(Floats a, Floats b) { return select(a < b, a, b); }
inline Ints max(Ints a, Ints b) { return select(a > b, a, b); }
inline Ints min(Ints a, Ints b) { return select(a < b, a, b); }

// Sum and maximum over the lanes, as a tree.
inline float sum(Floats v) {
  Eight x = low_half(v) + high_half(v);
  x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  return x[0] + x[1];
}
inline float maximum(Floats v) {
  Eight a = low_half(v), b = high_half(v), x = a > b ? a : b;
  b = __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  x = x > b ? x : b;
  b = __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  x = x > b ? x : b;
  return x[0] > x[1] ? x[0] : x[1];
}

// The largest integer not above x, for |x| < 2^31.
inline Ints floor_to_int(Floats x) {
  Ints t = to_ints(x);
  return t + (to_floats(t) > x);  // a true comparison is -1
}

// e^x with a relative error of about 1e-7; 0 below -87, saturates above 88, keeps NaNs.
inline Floats exp(Floats x) {
  Floats y = select(x < -87.0f, broadcast(-87.0f), x);
  y = select(y > 88.0f, broadcast(88.0f), y);
  Floats n = (y * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounds to an integer
  Floats r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = math::exp_polynomial(r, [](auto a, auto b, auto c) { return a * b + c; });
  Floats e = p * bits_to_floats((to_ints(n) + 127) << 23);
  return select(x < -87.0f, Floats{}, e);
}

}  // namespace saccade::cpu
