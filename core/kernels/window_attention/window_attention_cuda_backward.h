// Window attention backward if a window is one tile (up to 64 tokens) and the products run on tensor cores: a
// block takes one head of a run of windows and computes each weight once. With queries as rows, dq and the
// deltas belong to one warp; the weights and the gradients of the scores then go through shared memory to
// become the transposed factors of dv and dk. The gradients of the bias stay in registers until the run ends
// and leave the block folded by displacement.
#pragma once

#include "core/kernels/attention/attention_cuda_backward.h"
#include "core/kernels/window_attention/window_attention_cuda.h"

namespace saccade::cuda {

constexpr int kWindowRows = 64;  // at most this many tokens: four warps of 16

template <Mma kMma, int kD>
struct WindowBackwardShared {
  using T = Stored<kMma>;
  static constexpr size_t kTile = tile_bytes<kMma, kD>(kWindowRows);
  static constexpr size_t kWeights = sizeof(T) * kWindowRows * kTransposedStride<kMma, kWindowRows>;
  T *q, *dy, *k, *v, *weights, *gradients;
  float *lse, *key_terms, *rest;

  static constexpr size_t bytes() { return 4 * kTile + 2 * kWeights + sizeof(float) * 2 * kWindowRows; }
  __device__ explicit WindowBackwardShared(char* at)
      : q(reinterpret_cast<T*>(at)),
        dy(reinterpret_cast<T*>(at + kTile)),
        k(reinterpret_cast<T*>(at + 2 * kTile)),
        v(reinterpret_cast<T*>(at + 3 * kTile)),
        weights(reinterpret_cast<T*>(at + 4 * kTile)),
        gradients(reinterpret_cast<T*>(at + 4 * kTile + kWeights)),
        lse(reinterpret_cast<float*>(at + 4 * kTile + 2 * kWeights)),
        key_terms(lse + kWindowRows),
        rest(key_terms + kWindowRows) {}
};

// Block b: head b % H of the windows of run b / H. displacements [runs, H, side, side]: the sums of the
// gradients of the pairs (q, k) by the position of q relative to k; null if not wanted.
template <Mma kMma, int kD>
__global__ void __launch_bounds__(kWindowRows * 2)
    window_backward_tiles(WindowTiles<Stored<kMma>> p, float* displacements) {
  using T = Stored<kMma>;
  constexpr int kN = kWindowRows;
  SACCADE_DYNAMIC_SHARED(char, bytes);
  WindowBackwardShared<kMma, kD> shared(bytes);
  int group = static_cast<int>(blockIdx.x), first = warp_id() * 16;
  bool active = first < p.queries;
  Accumulators<1, kN> sum;
  clear<1, kN>(sum);
  const int members = static_cast<int>(p.members(group));
  for (int i = 0; i < members; ++i) {
    __syncthreads();  // the previous window's numbers have been read
    auto head = p.head(p.member(group, i), shared.rest);
    load_queries<kMma, kN, kD>(p, head, 0, shared.q, shared.dy, shared);
    load_keys<kMma, kN, kD>(p, head, 0, shared.k, shared.v, shared.key_terms);
    __syncthreads();
    if (active) {
      Accumulators<1, kN> w, g;
      product<kMma, 1, kN, kD>(w, shared.q + first * kTileStride<kMma, kD>, shared.k);
      product<kMma, 1, kN, kD>(g, shared.dy + first * kTileStride<kMma, kD>, shared.v);
      float delta[2] = {};
      for_each_element<1, kN>(w, [&](float& x, int, int, int row, int column) {
        x = math::fma(x, p.scale, shared.key_terms[column]) + p.pair_term(head, first + row, column);
        x = exp_of_difference(x, shared.lse[first + row]);
      });
      for_each_index<1, kN>([&](int, int j, int e) { delta[e / 2] += w[0][j][e] * g[0][j][e]; });
      delta[0] = warp_sum<4>(delta[0]), delta[1] = warp_sum<4>(delta[1]);
      for_each_index<1, kN>([&](int, int j, int e) {
        g[0][j][e] = w[0][j][e] * (g[0][j][e] - delta[e / 2]);
        sum[0][j][e] += g[0][j][e];
      });
      store_transposed<kMma, 1, kN>(shared.weights + first * kTransposedStride<kMma, kWindowRows>, w);
      store_transposed<kMma, 1, kN>(shared.gradients + first * kTransposedStride<kMma, kWindowRows>, g);
      if (p.wants_dq()) {
        Accumulators<1, kD> dq;
        clear<1, kD>(dq);
        add_product<kMma, 1, kN, kD>(
            dq, [&](int m, int j, int e) { return g[m][j][e]; }, shared.k, nullptr);
        for_each_row<1>([&](int m, int r) {
          if (T* row = p.dquery(head, first + lane_id() / 4 + 8 * r))
            store_row<kMma, 1, kD>(row, dq, m, r, p.D, p.pairs, p.scale);
        });
      }
    } else if (i == 0) {  // rows without tokens are zeros
      Accumulators<1, kN> zeros;
      clear<1, kN>(zeros);
      store_transposed<kMma, 1, kN>(shared.weights + first * kTransposedStride<kMma, kWindowRows>, zeros);
      store_transposed<kMma, 1, kN>(shared.gradients + first * kTransposedStride<kMma, kWindowRows>, zeros);
    }
    __syncthreads();
    if (!active) continue;
    Accumulators<1, kD> dk, dv;
    product_transposed<kMma, kN, kN, kD, kD>(dv, shared.weights + first, shared.dy);
    product_transposed<kMma, kN, kN, kD, kD>(dk, shared.gradients + first, shared.q);
    store_key_gradients<kMma, 1, kD>(p, head, first, dk, dv);
  }
  if (displacements == nullptr) return;

  // The sums, as f32 [64, 65], replace the tiles and weights.
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(bytes);
  constexpr int kSumStride = kWindowRows + 1;
  static_assert(sizeof(float) * kWindowRows * kSumStride <= WindowBackwardShared<kMma, kD>::bytes());
  for_each_element<1, kN>(
      sum, [&](float& x, int, int, int row, int column) { sums[(first + row) * kSumStride + column] = x; });
  __syncthreads();
  int window = p.map.window, side = p.side();
  for (int i = static_cast<int>(threadIdx.x); i < side * side; i += static_cast<int>(blockDim.x)) {
    int dy = i / side - (window - 1), dx = i % side - (window - 1);
    float total = 0;
    for (int y = dy > 0 ? dy : 0; y < window + (dy < 0 ? dy : 0); ++y)
      for (int x = dx > 0 ? dx : 0; x < window + (dx < 0 ? dx : 0); ++x)
        total += sums[(y * window + x) * kSumStride + (y - dy) * window + x - dx];
    displacements[int64_t{group} * side * side + i] = total;
  }
}

}  // namespace saccade::cuda
