// Attention forward over the heads of attention_heads.h: a block owns some queries of one head and streams
// the keys and values through shared memory, rescaling the softmax as the maximum grows (Milakov and
// Gimelshein 2018; Dao et al. 2022). Keys are processed in order, so results are reproducible to the bit.
#pragma once

#include "core/kernels/attention/attention_cuda.h"
#include "core/tensor/math.h"

namespace saccade::cuda {

// FMA: two warps of 32 queries, so that each number from shared memory serves several products. Tensor cores:
// four warps of 16 queries.
template <Mma kMma, int kD>
using ForwardShape = std::conditional_t<kMma == Mma::kFma, TileShape<64, kD <= 64 ? 64 : 32, 2, 2>,
                                        TileShape<64, kMma == Mma::kTf32 && kD == 128 ? 32 : 64, 1, 4>>;

template <Mma kMma, int kD>
size_t forward_shared_bytes() {
  using Shape = ForwardShape<kMma, kD>;
  return tile_bytes<kMma, kD>(Shape::kRows) + 2 * tile_bytes<kMma, kD>(Shape::kColumns) +
         sizeof(float) * (Shape::kColumns + Shape::kWarps * kStageFloats<kMma, Shape::kM, Shape::kColumns>);
}

// Long, since nearly every line uses the registers of the running softmax.
template <Mma kMma, int kD, class Heads>
__global__ void __launch_bounds__(ForwardShape<kMma, kD>::kThreads) attention_forward_tiles(Heads p) {
  using Shape = ForwardShape<kMma, kD>;
  using T = Stored<kMma>;
  constexpr int kM = Shape::kM, kN = Shape::kColumns, kStride = kTileStride<kMma, kD>;
  SACCADE_DYNAMIC_SHARED(char, shared);
  T* q_tile = reinterpret_cast<T*>(shared);
  T* k_tile = q_tile + Shape::kRows * kStride;
  T* v_tile = k_tile + kN * kStride;
  float* key_terms = reinterpret_cast<float*>(v_tile + kN * kStride);
  float* stages = key_terms + kN;
  constexpr int kStage = kStageFloats<kMma, kM, kN>;

  int tiles = (p.queries + Shape::kRows - 1) / Shape::kRows;
  auto head = p.head(blockIdx.x / tiles, stages + Shape::kWarps * kStage);
  int q0 = static_cast<int>(blockIdx.x) % tiles * Shape::kRows;
  load_tile<kMma, Shape::kRows, kD>(q_tile, p.D, p.packs, [&](int r) { return p.query(head, q0 + r); });

  int first = warp_id() * 16 * kM;  // row of this warp in the tile
  float top[kM][2], total[kM][2];   // of a row so far; total: this lane's share
  for_each_row<kM>([&](int m, int r) { top[m][r] = kMinusInfinity, total[m][r] = 0; });
  Accumulators<kM, kD> out;
  clear<kM, kD>(out);

  for (int s0 = 0; s0 < p.keys; s0 += kN) {
    __syncthreads();  // the previous tile has been read
    load_tile<kMma, kN, kD>(k_tile, p.D, p.packs, [&](int r) { return p.key(head, s0 + r); });
    load_tile<kMma, kN, kD>(v_tile, p.Dv, p.packs, [&](int r) { return p.value(head, s0 + r); });
    for (int s = static_cast<int>(threadIdx.x); s < kN; s += Shape::kThreads)
      key_terms[s] = p.key_term(head, s0 + s);
    __syncthreads();
    if (q0 + first >= p.queries) continue;  // this warp only helps to load

    Accumulators<kM, kN> z;
    product<kMma, kM, kN, kD>(z, q_tile + first * kStride, k_tile);
    for_each_element<kM, kN>(
        z, [&](float& x, int, int, int, int column) { x = math::fma(x, p.scale, key_terms[column]); });
    if (p.has_pair_terms()) {
      for_each_element<kM, kN>(z, [&](float& x, int, int, int row, int column) {
        x += p.pair_term(head, q0 + first + row, s0 + column);
      });
    }
    float now[kM][2];
    for_each_row<kM>([&](int m, int r) { now[m][r] = top[m][r]; });
    for_each_element<kM, kN>(z, [&](float& x, int m, int r, int, int) { now[m][r] = fmaxf(now[m][r], x); });
    float shift[kM][2], shrink[kM][2];
    for_each_row<kM>([&](int m, int r) {
      now[m][r] = warp_max<4>(now[m][r]);
      // If no key has taken part yet, exp(-inf - 0) gives the zeros.
      shift[m][r] = now[m][r] == kMinusInfinity ? 0.0f : now[m][r];
      shrink[m][r] = exp_of_difference(top[m][r], shift[m][r]);
      top[m][r] = now[m][r];
      total[m][r] *= shrink[m][r];
    });
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
          unsigned zeros = dropped(p.dropout, p.row(head, q0 + first + 16 * m), s0 + 8 * j, p.keys);
#pragma unroll
          for (int i = 0; i < 4; ++i) z[m][j][i] = zeros >> i & 1u ? 0.0f : z[m][j][i] * p.dropout.factor;
        }
    }
    add_product<kMma, kM, kN, kD>(
        out, [&](int m, int j, int i) { return z[m][j][i]; }, v_tile, stages + warp_id() * kStage);
  }

  if (q0 + first >= p.queries) return;
  int g = lane_id() / 4;
  for_each_row<kM>([&](int m, int r) {
    float sum = warp_sum<4>(total[m][r]);
    int q = q0 + first + 16 * m + g + 8 * r;
    if (q >= p.queries) return;
    // A NaN reaches both results.
    if (lane_id() % 4 == 0 && p.owns_row(head, q))
      p.lse[p.row(head, q)] = sum > 0 ? top[m][r] + math::log(sum) : sum == 0 ? kMinusInfinity : sum;
    if (T* y = p.output(head, q))
      store_row<kMma, kM, kD>(y, out, m, r, p.Dv, p.pairs, sum == 0 ? 0.0f : 1 / sum);
  });
}

template <Mma kMma, int kD, class Heads>
void launch_attention_forward(Heads p) {
  using Shape = ForwardShape<kMma, kD>;
  find_accesses(p);
  const int64_t blocks = p.count() * ceil_div(p.queries, Shape::kRows);
  launch("attention_forward_tiles", &attention_forward_tiles<kMma, kD, Heads>,
         {blocks, Shape::kThreads, forward_shared_bytes<kMma, kD>() + p.head_bytes()}, p);
}

}  // namespace saccade::cuda
