// Dropout that generates the random bits of 32 elements at a time in AVX-512 registers: the same bits as the
// generic kernel, which other machines use.
#ifdef __AVX512F__

#include "core/kernels/random/random.h"

// GCC bug 105593: GCC warns that its own header uses undefined values.
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cmath>

#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kBlock = 32;

// Sixteen consecutive words of random bits, twice.
struct Bits {
  __m512i low, high;
};

// Philox4x32-10 of counters [counter, counter + 8). Each 64-bit lane holds one 32-bit word in its lower half;
// the multiplication ignores the garbage in the upper half.
inline Bits philox_8(uint64_t key, uint64_t hi, uint64_t counter) {
  const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  __m512i x0 = _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(counter)), lanes);
  __m512i x1 = _mm512_srli_epi64(x0, 32);
  __m512i x2 = _mm512_set1_epi64(static_cast<int64_t>(hi)), x3 = _mm512_srli_epi64(x2, 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    __m512i p0 = _mm512_mul_epu32(x0, m0), p1 = _mm512_mul_epu32(x2, m1);
    constexpr int kXor3 = 0x96;
    x0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), x1, _mm512_set1_epi64(k0), kXor3);
    x2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), x3, _mm512_set1_epi64(k1), kXor3);
    x1 = p1;
    x3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // Lane c becomes the pairs (x0, x1) and (x2, x3) of counter c; then the pairs are interleaved.
  const __mmask16 odd = 0xAAAA;
  __m512i a = _mm512_mask_blend_epi32(odd, x0, _mm512_slli_epi64(x1, 32));
  __m512i b = _mm512_mask_blend_epi32(odd, x2, _mm512_slli_epi64(x3, 32));
  return {_mm512_permutex2var_epi64(a, _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), b),
          _mm512_permutex2var_epi64(a, _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4), b)};
}

// Drops and scales the 32 elements of a block.
struct Dropper {
  uint64_t key, call, first;  // first: in units of four elements
  __m512i threshold;          // dropped if the upper 24 bits are below it
  __m512 scale;

  void run(const float* x, float* y, uint64_t block) const {
    Bits bits = philox_8(key, call, first + block * 8);
    store(bits.low, x, y);
    store(bits.high, x + 16, y + 16);
  }
  void store(__m512i bits, const float* x, float* y) const {
    __mmask16 keep = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(bits, 8), threshold);
    _mm512_storeu_ps(y, _mm512_maskz_mul_ps(keep, _mm512_loadu_ps(x), scale));
  }
};

template <class T>
void run(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first_element, Tensor& y) {
  // uniform < p with 24-bit uniforms is an integer comparison.
  double below = std::ceil(static_cast<double>(static_cast<float>(p)) * 0x1p24);
  Dropper dropper{key, call, first_element / 4, _mm512_set1_epi32(static_cast<int>(below)),
                  _mm512_set1_ps(static_cast<float>(p < 1 ? 1 / (1 - p) : 0))};
  const T* from = x.data<T>();
  T* to = y.data<T>();
  int64_t n = x.numel();
  parallel_for(ceil_div(n, kBlock), 256, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      int64_t first = block * kBlock, count = std::min(kBlock, n - first);
      if (std::is_same_v<T, float> && count == kBlock) {
        dropper.run(reinterpret_cast<const float*>(from + first), reinterpret_cast<float*>(to + first),
                    static_cast<uint64_t>(block));
        continue;
      }
      float buffer[kBlock] = {};
      for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(from[first + i]);
      dropper.run(buffer, buffer, static_cast<uint64_t>(block));
      for (int64_t i = 0; i < count; ++i) to[first + i] = T(buffer[i]);
    }
  });
}

void dropout_avx512(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first_element,
                    Tensor& y) {
  dispatch_dtype<float, bf16>(x.dtype(), "dropout",
                              [&]<class T>() { run<T>(x, p, key, call, first_element, y); });
}

SACCADE_REGISTER_TUNED_KERNEL(dropout, Device::kCpu, &dropout_avx512, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels

#endif
