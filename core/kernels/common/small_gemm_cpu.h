// Single-threaded products of small matrices that stay in the cache: for attention, where a library call per
// head and block would cost more than the product.
#pragma once

#include <cstdint>

#include "core/kernels/common/vector_cpu.h"

namespace saccade::cpu {

// Rows and vectors of the register tile: it has as many sums as fit the registers.
#ifdef __AVX512F__
inline constexpr int kTileRows = 6, kTileVectors = 4;
#else
inline constexpr int kTileRows = 6, kTileVectors = 1;
#endif

// A register tile: sum[i] = a[i][k * ak] times row k of b [K, kVectors * kLanes], summed over k in order.
template <int kRows, int kVectors>
inline void sum_tile(int64_t K, const float* const (&a)[kRows], int64_t ak, const float* b, int64_t bk,
                     Floats (&sum)[kRows][kVectors]) {
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum[i][j] = Floats{};
  for (int64_t k = 0; k < K; ++k) {
    Floats x[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) x[j] = load(b + k * bk + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Floats f = broadcast(a[i][k * ak]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] += f * x[j];
    }
  }
}

// One tile of c = a b (kAdd: c += a b); see small_gemm.
template <bool kAdd, int kRows, int kVectors>
inline void gemm_tile(int64_t K, const float* a, int64_t ai, int64_t ak, const float* b, int64_t bk, float* c,
                      int64_t ci) {
  const float* rows[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) rows[i] = a + i * ai;
  Floats sum[kRows][kVectors];
  sum_tile(K, rows, ak, b, bk, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * ci + j * kLanes;
      store(to, kAdd ? load(to) + sum[i][j] : sum[i][j]);  // a sum of sums has less rounding error
    }
}

template <bool kAdd, int kVectors>
inline void gemm_columns(int64_t I, int64_t K, const float* a, int64_t ai, int64_t ak, const float* b,
                         int64_t bk, float* c, int64_t ci) {
  int64_t i = 0;
  for (; i + kTileRows <= I; i += kTileRows)
    gemm_tile<kAdd, kTileRows, kVectors>(K, a + i * ai, ai, ak, b, bk, c + i * ci, ci);
  for (; i + 2 <= I; i += 2) gemm_tile<kAdd, 2, kVectors>(K, a + i * ai, ai, ak, b, bk, c + i * ci, ci);
  if (i < I) gemm_tile<kAdd, 1, kVectors>(K, a + i * ai, ai, ak, b, bk, c + i * ci, ci);
}

// c[i * ci + j] (+)= sum over k < K of a[i * ai + k * ak] * b[k * bk + j] for i < I, j < J; J is a multiple
// of 16. Every sum is over k in order, whatever the tiles; the previous value of c is added at the end.
template <bool kAdd>
void small_gemm(int64_t I, int64_t J, int64_t K, const float* a, int64_t ai, int64_t ak, const float* b,
                int64_t bk, float* c, int64_t ci) {
  int64_t j = 0;
  for (; j + kTileVectors * kLanes <= J; j += kTileVectors * kLanes)
    gemm_columns<kAdd, kTileVectors>(I, K, a, ai, ak, b + j, bk, c + j, ci);
  if constexpr (kTileVectors > 2) {
    for (; j + 2 * kLanes <= J; j += 2 * kLanes) gemm_columns<kAdd, 2>(I, K, a, ai, ak, b + j, bk, c + j, ci);
  }
  for (; j < J; j += kLanes) gemm_columns<kAdd, 1>(I, K, a, ai, ak, b + j, bk, c + j, ci);
}

}  // namespace saccade::cpu
