// Small matrix products of a warp on tiles in shared memory, the parts of attention: C = A B^T with both
// operands in shared memory, and C += P B with P still in the registers of such a product. Three kinds of
// arithmetic share one layout of the results, so that kernels are written only once:
//   kFma   f32 products and sums, as exact as on the CPU
//   kTf32  f32 tiles rounded to tf32, tensor cores
//   kBf16  bf16 tiles, tensor cores; P is rounded to bf16
// A warp owns 16 kM rows. With g = lane / 4, t = lane % 4, element i of acc[m][j] is row 16m + g + 8 (i / 2),
// column 8j + 2t + i % 2 (columns of the second product: out_column).
#pragma once

#include <bit>

#include "core/kernels/common/mma_cuda.h"
#include "core/runtime/cuda/block.h"

namespace saccade::cuda {

enum class Mma { kFma, kTf32, kBf16 };

template <Mma kMma>
using Stored = std::conditional_t<kMma == Mma::kBf16, bf16, float>;

// The distance of a tile's rows is a multiple of 128 bytes (or 32) plus one pack, so that the packs of eight
// rows are in different banks.
template <Mma kMma, int kD>
inline constexpr int kTileStride = kD + kPackWidth<Stored<kMma>>;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

// nvcc 12.4 crashes if an alias names the array type directly.
template <int kM, int kTiles>
struct AccumulatorArray {
  using Type = float[kM][kTiles][4];
};
template <int kM, int kN>
using Accumulators = typename AccumulatorArray<kM, kN / 8>::Type;

// Calls f(m, j, i) for each element of this lane, and f(m, r) for each of its rows.
template <int kM, int kN, class F>
__device__ __forceinline__ void for_each_index(const F& f) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int j = 0; j < kN / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(m, j, i);
}
template <int kM, class F>
__device__ __forceinline__ void for_each_row(const F& f) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) f(m, r);
}
template <int kM, int kN>
__device__ __forceinline__ void clear(Accumulators<kM, kN>& acc) {
  for_each_index<kM, kN>([&](int m, int j, int i) { acc[m][j][i] = 0; });
}

// Calls f(value, m, i, row, column) for each element of this lane; rows count from the warp's first.
template <int kM, int kN, class F>
__device__ __forceinline__ void for_each_element(Accumulators<kM, kN>& acc, const F& f) {
  int g = lane_id() / 4, t = lane_id() % 4;
  for_each_index<kM, kN>([&](int m, int j, int i) {
    f(acc[m][j][i], m, i / 2, 16 * m + g + 8 * (i / 2), 8 * j + 2 * t + i % 2);
  });
}

// The first column of the pair acc[m][j][0..1] of a second product.
template <Mma kMma>
__device__ __forceinline__ int out_column(int j) {
  int t = lane_id() % 4;
  return kMma == Mma::kFma ? 16 * (j / 2) + 4 * t + 2 * (j % 2) : 8 * j + 2 * t;
}

// Copies kRows rows of up to kD elements to shared memory; row(r) returns the address of one, or nullptr for
// zeros. Columns from D on are zeros. With `packs` rows are read 16 bytes at a time. All threads of the block
// must call it.
template <Mma kMma, int kRows, int kD, class Row>
__device__ __forceinline__ void load_tile(Stored<kMma>* tile, int D, bool packs, const Row& row) {
  using T = Stored<kMma>;
  constexpr int kWidth = kPackWidth<T>, kPacks = kD / kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += static_cast<int>(blockDim.x)) {
    int r = i / kPacks, d = i % kPacks * kWidth;
    const T* from = row(r);
    Pack<T, kWidth> value;
    if (from != nullptr && packs && d < D) {
      value = load_pack<kWidth>(from + d);
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) value.x[k] = from != nullptr && d + k < D ? from[d + k] : T(0.0f);
    }
    if constexpr (kMma == Mma::kTf32) {
#pragma unroll
      for (float& x : value.x) x = round_tf32(x);
    }
    store_pack(tile + r * kTileStride<kMma, kD> + d, value);
  }
}

// acc = A B^T: a points at the warp's first row of [16 kM, kD], b at [kN, kD].
template <Mma kMma, int kM, int kN, int kD>
__device__ __forceinline__ void product(Accumulators<kM, kN>& acc, const Stored<kMma>* a,
                                        const Stored<kMma>* b) {
  constexpr int kStride = kTileStride<kMma, kD>;
  int g = lane_id() / 4, t = lane_id() % 4;
  clear<kM, kN>(acc);
  if constexpr (kMma == Mma::kFma) {
#pragma unroll 1
    for (int k = 0; k < kD; k += 4) {
      Pack<float, 4> x[kM][2];
      for_each_row<kM>([&](int m, int r) { x[m][r] = load_pack<4>(a + (16 * m + 8 * r + g) * kStride + k); });
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          auto y = load_pack<4>(b + (8 * j + 2 * t + e) * kStride + k);
          for_each_row<kM>([&](int m, int r) {
#pragma unroll
            for (int c = 0; c < 4; ++c) acc[m][j][2 * r + e] += x[m][r].x[c] * y.x[c];
          });
        }
    }
  } else if constexpr (kMma == Mma::kTf32) {
#pragma unroll 2
    for (int k = 0; k < kD; k += 8) {
      uint32_t x[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          x[m][i] = std::bit_cast<uint32_t>(a[(16 * m + 8 * (i % 2) + g) * kStride + k + t + 4 * (i / 2)]);
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const float* y = b + (8 * j + g) * kStride + k + t;
        auto y0 = std::bit_cast<uint32_t>(y[0]), y1 = std::bit_cast<uint32_t>(y[4]);
#pragma unroll
        for (int m = 0; m < kM; ++m) mma_tf32(acc[m][j], x[m], y0, y1);
      }
    }
  } else {
    int matrix = lane_id() / 8, r = lane_id() % 8;
#pragma unroll
    for (int k = 0; k < kD; k += 16) {
      uint32_t x[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m)
        load_matrices<false>(x[m], a + (16 * m + matrix % 2 * 8 + r) * kStride + k + matrix / 2 * 8);
#pragma unroll
      for (int j = 0; j < kN / 8; j += 2) {
        uint32_t y[4];
        load_matrices<false>(y, b + (8 * j + matrix / 2 * 8 + r) * kStride + k + matrix % 2 * 8);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          mma_bf16(acc[m][j], x[m], y[0], y[1]);
          mma_bf16(acc[m][j + 1], x[m], y[2], y[3]);
        }
      }
    }
  }
}

// Floats of shared memory that a warp needs to rearrange P; tensor cores take it from the registers.
template <Mma kMma, int kM, int kN>
inline constexpr int kStageFloats = kMma == Mma::kFma ? 16 * kM*(kN + 4) : 0;

// acc += P B: p(m, j, i) is an element of P [16 kM, kN] in the layout of product(), b points at [kN, kD].
template <Mma kMma, int kM, int kN, int kD, class P>
__device__ __forceinline__ void add_product(Accumulators<kM, kD>& acc, const P& p, const Stored<kMma>* b,
                                            [[maybe_unused]] float* stage) {
  constexpr int kStride = kTileStride<kMma, kD>;
  [[maybe_unused]] int g = lane_id() / 4, t = lane_id() % 4;
  if constexpr (kMma == Mma::kFma) {
    constexpr int kStageStride = kN + 4;
    __syncwarp();  // the previous product has been read
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          store_pack(stage + (16 * m + 8 * r + g) * kStageStride + 8 * j + 2 * t,
                     Pack<float, 2>{p(m, j, 2 * r), p(m, j, 2 * r + 1)});
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < kN; k += 4) {
      Pack<float, 4> x[kM][2];
      for_each_row<kM>(
          [&](int m, int r) { x[m][r] = load_pack<4>(stage + (16 * m + 8 * r + g) * kStageStride + k); });
#pragma unroll
      for (int c = 0; c < 4; ++c)
#pragma unroll
        for (int j = 0; j < kD / 8; j += 2) {
          auto y = load_pack<4>(b + (k + c) * kStride + out_column<kMma>(j));
          for_each_row<kM>([&](int m, int r) {
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[m][j + e / 2][2 * r + e % 2] += x[m][r].x[c] * y.x[e];
          });
        }
    }
  } else if constexpr (kMma == Mma::kTf32) {
    // The order of the keys inside an 8x8 product is arbitrary: keys 2t and 2t + 1 take the places t and t +
    // 4, so that P can be used where it is.
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
      uint32_t x[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          x[m][i] = std::bit_cast<uint32_t>(round_tf32(p(m, j, 2 * (i % 2) + i / 2)));
      const float* y = b + (8 * j + 2 * t) * kStride + g;
#pragma unroll
      for (int d = 0; d < kD / 8; ++d) {
        auto y0 = std::bit_cast<uint32_t>(y[8 * d]), y1 = std::bit_cast<uint32_t>(y[kStride + 8 * d]);
#pragma unroll
        for (int m = 0; m < kM; ++m) mma_tf32(acc[m][d], x[m], y0, y1);
      }
    }
  } else {
    int matrix = lane_id() / 8, r = lane_id() % 8;
#pragma unroll
    for (int j = 0; j < kN / 8; j += 2) {
      uint32_t x[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          x[m][i] = pack_bf16(p(m, j + i / 2, 2 * (i % 2)), p(m, j + i / 2, 2 * (i % 2) + 1));
#pragma unroll
      for (int d = 0; d < kD / 8; d += 2) {
        uint32_t y[4];
        load_matrices<true>(y, b + (8 * j + matrix % 2 * 8 + r) * kStride + 8 * d + matrix / 2 * 8);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          mma_bf16(acc[m][d], x[m], y[0], y[1]);
          mma_bf16(acc[m][d + 1], x[m], y[2], y[3]);
        }
      }
    }
  }
}

// Rows of P [.., kN] in shared memory are spaced such that neither the stores of store_transposed nor the
// loads of product_transposed have bank conflicts.
template <Mma kMma, int kN>
inline constexpr int kTransposedStride = kN + (kMma == Mma::kBf16 ? 8 : 4);

// Stores the warp's rows of P to shared memory, as factors of product_transposed.
template <Mma kMma, int kM, int kN>
__device__ __forceinline__ void store_transposed(Stored<kMma>* rows, const Accumulators<kM, kN>& p) {
  using T = Stored<kMma>;
  int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int j = 0; j < kN / 8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        Pack<T, 2> pair;
        for (int e = 0; e < 2; ++e) {
          float x = p[m][j][2 * r + e];
          pair.x[e] = T(kMma == Mma::kTf32 ? round_tf32(x) : x);
        }
        store_pack(rows + (16 * m + 8 * r + g) * kTransposedStride<kMma, kN> + 8 * j + 2 * t, pair);
      }
}

// Returns row r of a lane, 0 or 1, in the result of product_transposed; its columns are those of out_column.
template <Mma kMma>
__device__ __forceinline__ int transposed_row(int r) {
  int g = lane_id() / 4;
  return kMma == Mma::kFma ? 2 * g + r : g + 8 * r;
}

// acc [16, kOut] = P^T B for 16 columns of P from p on; P [kRows, kN] as stored by store_transposed; b points
// to [kRows, kOut] in a tile of kD columns.
template <Mma kMma, int kRows, int kN, int kD, int kOut>
__device__ __forceinline__ void product_transposed(Accumulators<1, kOut>& acc, const Stored<kMma>* p,
                                                   const Stored<kMma>* b) {
  constexpr int kStride = kTileStride<kMma, kD>, kRow = kTransposedStride<kMma, kN>;
  [[maybe_unused]] int g = lane_id() / 4, t = lane_id() % 4;
  clear<1, kOut>(acc);
  if constexpr (kMma == Mma::kFma) {
#pragma unroll 4
    for (int k = 0; k < kRows; ++k) {
      auto x = load_pack<2>(p + k * kRow + 2 * g);
#pragma unroll
      for (int j = 0; j < kOut / 8; j += 2) {
        auto y = load_pack<4>(b + k * kStride + out_column<kMma>(j));
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int e = 0; e < 4; ++e) acc[0][j + e / 2][2 * r + e % 2] += x.x[r] * y.x[e];
      }
    }
  } else if constexpr (kMma == Mma::kTf32) {
    // Rows 2t and 2t + 1 take the places t and t + 4, as in add_product.
#pragma unroll
    for (int k = 0; k < kRows; k += 8) {
      const float *x0 = p + (k + 2 * t) * kRow + g, *y = b + (k + 2 * t) * kStride + g;
      uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = std::bit_cast<uint32_t>(x0[i / 2 * kRow + i % 2 * 8]);
#pragma unroll
      for (int d = 0; d < kOut / 8; ++d)
        mma_tf32(acc[0][d], x, std::bit_cast<uint32_t>(y[8 * d]),
                 std::bit_cast<uint32_t>(y[kStride + 8 * d]));
    }
  } else {
    int matrix = lane_id() / 8, r = lane_id() % 8;
#pragma unroll
    for (int k = 0; k < kRows; k += 16) {
      uint32_t x[4];
      load_matrices<true>(x, p + (k + matrix / 2 * 8 + r) * kRow + matrix % 2 * 8);
#pragma unroll
      for (int d = 0; d < kOut / 8; d += 2) {
        uint32_t y[4];
        load_matrices<true>(y, b + (k + matrix % 2 * 8 + r) * kStride + 8 * d + matrix / 2 * 8);
        mma_bf16(acc[0][d], x, y[0], y[1]);
        mma_bf16(acc[0][d + 1], x, y[2], y[3]);
      }
    }
  }
}

// Stores row 16m + g + 8r of a second product, times `factor`, to the D elements at `row`; `pairs`: two of
// them may be written at once.
template <Mma kMma, int kM, int kD, class T>
__device__ __forceinline__ void store_row(T* row, const Accumulators<kM, kD>& acc, int m, int r, int D,
                                          bool pairs, float factor) {
#pragma unroll
  for (int j = 0; j < kD / 8; ++j) {
    int d = out_column<kMma>(j);
    T a = T(acc[m][j][2 * r] * factor), b = T(acc[m][j][2 * r + 1] * factor);
    if (pairs) {
      if (d < D) store_pack(row + d, Pack<T, 2>{a, b});
    } else {
      if (d < D) row[d] = a;
      if (d + 1 < D) row[d + 1] = b;
    }
  }
}

}  // namespace saccade::cuda
