// Attention forward over a Problem (attention.h): a block owns some queries of one head and streams the keys
// and values through shared memory, with the softmax rescaled as the maximum grows (Milakov and Gimelshein
// 2018; Dao et al. 2022). Keys are taken in order, so results repeat to the bit.
#pragma once

#include "core/kernels/attention/attention_cuda.h"
#include "core/tensor/math.h"

namespace saccade::cuda {

// FMA: two warps of 32 queries, so that each number from shared memory serves several products. Tensor cores:
// four warps of 16.
template <Math kMath, int kD>
using ForwardShape = std::conditional_t<kMath == Math::kFma, TileShape<64, kD <= 64 ? 64 : 32, 2, 2>,
                                        TileShape<64, kMath == Math::kTf32 && kD == 128 ? 32 : 64, 1, 4>>;

template <Math kMath, int kD>
size_t forward_shared_bytes() {
  using Shape = ForwardShape<kMath, kD>;
  return tile_bytes<kMath, kD>(Shape::kRows) + 2 * tile_bytes<kMath, kD>(Shape::kColumns) +
         sizeof(float) * (Shape::kColumns + Shape::kWarps * kStageFloats<kMath, Shape::kM, Shape::kColumns>);
}

template <Math kMath, int kD, class Problem>
__global__ void __launch_bounds__(ForwardShape<kMath, kD>::kThreads) attention_forward_tiles(Problem p) {
  using Shape = ForwardShape<kMath, kD>;
  using T = Stored<kMath>;
  constexpr int kM = Shape::kM, kN = Shape::kColumns, kStride = kTileStride<kMath, kD>;
  SACCADE_DYNAMIC_SHARED(char, shared);
  T* q_tile = reinterpret_cast<T*>(shared);
  T* k_tile = q_tile + Shape::kRows * kStride;
  T* v_tile = k_tile + kN * kStride;
  float* key_terms = reinterpret_cast<float*>(v_tile + kN * kStride);
  float* stages = key_terms + kN;
  constexpr int kStage = kStageFloats<kMath, kM, kN>;

  int tiles = (p.queries + Shape::kRows - 1) / Shape::kRows;
  auto head = p.head(blockIdx.x / tiles, stages + Shape::kWarps * kStage);
  int q0 = static_cast<int>(blockIdx.x) % tiles * Shape::kRows;
  load_tile<kMath, Shape::kRows, kD>(q_tile, p.D, p.packs, [&](int r) { return p.query(head, q0 + r); });

  int first = warp_id() * 16 * kM;  // row of this warp in the tile
  float top[kM][2], total[kM][2];   // of a row so far; total: this lane's share
#pragma unroll
  for (int m = 0; m < kM; ++m) top[m][0] = top[m][1] = kMinusInfinity, total[m][0] = total[m][1] = 0;
  Accumulators<kM, kD> out;
  clear<kM, kD>(out);

  for (int s0 = 0; s0 < p.keys; s0 += kN) {
    __syncthreads();  // the previous tile has been read
    load_tile<kMath, kN, kD>(k_tile, p.D, p.packs, [&](int r) { return p.key(head, s0 + r); });
    load_tile<kMath, kN, kD>(v_tile, p.Dv, p.packs, [&](int r) { return p.value(head, s0 + r); });
    for (int s = static_cast<int>(threadIdx.x); s < kN; s += Shape::kThreads)
      key_terms[s] = p.key_term(head, s0 + s);
    __syncthreads();
    if (q0 + first >= p.queries) continue;  // nothing to do but to load

    Accumulators<kM, kN> z;
    product<kMath, kM, kN, kD>(z, q_tile + first * kStride, k_tile);
    for_each_element<kM, kN>(
        z, [&](float& x, int, int, int, int column) { x = math::fma(x, p.scale, key_terms[column]); });
    if (p.has_pair_terms()) {
      for_each_element<kM, kN>(z, [&](float& x, int, int, int row, int column) {
        x += p.pair_term(head, q0 + first + row, s0 + column);
      });
    }
    float now[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m) now[m][0] = top[m][0], now[m][1] = top[m][1];
    for_each_element<kM, kN>(z, [&](float& x, int m, int r, int, int) { now[m][r] = fmaxf(now[m][r], x); });
    float shift[kM][2], shrink[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        now[m][r] = warp_max<4>(now[m][r]);
        // Where no key has taken part yet, exp(-inf - 0) gives the zeros.
        shift[m][r] = now[m][r] == kMinusInfinity ? 0.0f : now[m][r];
        shrink[m][r] = exp_of_difference(top[m][r], shift[m][r]);
        top[m][r] = now[m][r];
        total[m][r] *= shrink[m][r];
      }
    for_each_element<kM, kN>(z, [&](float& x, int m, int r, int, int) {
      x = exp_of_difference(x, shift[m][r]);
      total[m][r] += x;
    });
    for_each_element<kM, kD>(out, [&](float& x, int m, int r, int, int) { x *= shrink[m][r]; });
    if (p.dropout.probability > 0) {
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int j = 0; j < kN / 8; ++j) {
          unsigned dropped = p.dropout.dropped(p.row(head, q0 + first + 16 * m), p.keys, s0 + 8 * j);
#pragma unroll
          for (int i = 0; i < 4; ++i) z[m][j][i] = dropped >> i & 1u ? 0.0f : z[m][j][i] * p.dropout.factor;
        }
    }
    add_product<kMath, kM, kN, kD>(
        out, [&](int m, int j, int i) { return z[m][j][i]; }, v_tile, stages + warp_id() * kStage);
  }

  if (q0 + first >= p.queries) return;
  int g = lane_id() / 4;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = warp_sum<4>(total[m][r]);
      int q = q0 + first + 16 * m + g + 8 * r;
      if (q >= p.queries) continue;
      // A NaN comes out in both results.
      if (lane_id() % 4 == 0)
        p.log_sum[p.row(head, q)] = sum > 0 ? top[m][r] + math::log(sum) : sum == 0 ? kMinusInfinity : sum;
      if (T* y = p.output(head, q))
        store_row<kMath, kM, kD>(y, out, m, r, p.Dv, p.pairs, sum == 0 ? 0.0f : 1 / sum);
    }
}

}  // namespace saccade::cuda
