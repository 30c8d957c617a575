// Attention backward with five products for each pair of tiles: a block owns a run of key tiles. One
// computation of the weights and their gradients yields dk and dv, which it sums over the queries, and the
// tile's part of dq, which it writes to memory in f32. A second kernel adds up the parts of the runs. No
// atomics; the shape determines the order.
#pragma once

#include <algorithm>

#include "core/kernels/attention/attention_cuda_backward.h"

namespace saccade::cuda {

template <Mma kMma, int kD>
struct FiveProducts {
  using Shape = BackwardShape<kMma, kD>;
  using T = Stored<kMma>;
  static constexpr int kRows = Shape::kRows, kN = Shape::kColumns;
  // Warps that share 16 queries divide the columns of dq, at most 32 at a time each.
  static constexpr int kGroups = kN / 16, kWarpColumns = kD * kGroups / Shape::kWarps,
                       kOut = kWarpColumns < 32 ? kWarpColumns : 32;
  static_assert(kWarpColumns % kOut == 0 && kOut % 16 == 0 && Shape::kWarps % kGroups == 0);
  // In exact f32, the stage of the warps' products already holds the gradients of the scores as needed.
  static constexpr bool kStaged = kMma == Mma::kFma;
  static constexpr size_t transposed_bytes() {
    return kStaged ? 0 : sizeof(T) * kRows * kTransposedStride<kMma, kN>;
  }
  static constexpr size_t bytes() { return BackwardShared<kMma, kD>::bytes() + transposed_bytes(); }
};

// A run's part of dq; row(q) returns its address. The first tile sets it and the others add to it, always in
// the same thread.
template <Mma kMma, int kOut, class Row>
__device__ __forceinline__ void add_to_part(const Accumulators<1, kOut>& acc, int d0, int D, bool first,
                                            bool pairs, const Row& row) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float* out = row(transposed_row<kMma>(r));
    if (out == nullptr) continue;
#pragma unroll
    for (int j = 0; j < kOut / 8; ++j) {
      int d = d0 + out_column<kMma>(j);
      Pack<float, 2> sum{acc[0][j][2 * r], acc[0][j][2 * r + 1]};
      if (pairs) {
        if (d >= D) continue;
        if (!first) {
          auto before = load_pack<2>(out + d);
          sum.x[0] += before.x[0], sum.x[1] += before.x[1];
        }
        store_pack(out + d, sum);
      } else {
        for (int e = 0; e < 2; ++e)
          if (d + e < D) out[d + e] = first ? sum.x[e] : out[d + e] + sum.x[e];
      }
    }
  }
}

// dq_parts [runs, rows, D], rows as in lse. Each block takes a run of `run` tiles of keys of a head.
template <Mma kMma, int kD, class Heads>
__global__ void __launch_bounds__(BackwardShape<kMma, kD>::kThreads)
    attention_backward_tiles(Heads p, float* dq_parts, int64_t rows, int run, int runs) {
  using Five = FiveProducts<kMma, kD>;
  using T = Stored<kMma>;
  constexpr int kM = Five::Shape::kM, kN = Five::kN, kRows = Five::kRows;
  SACCADE_DYNAMIC_SHARED(char, bytes);
  BackwardShared<kMma, kD> shared(bytes);
  T* transposed = reinterpret_cast<T*>(shared.rest);
  if constexpr (Five::kStaged) transposed = shared.stage - warp_id() * BackwardShared<kMma, kD>::kStage;
  auto head = p.head(blockIdx.x / runs);
  int part = static_cast<int>(blockIdx.x) % runs, first = warp_id() * 16 * kM;
  int q_first = warp_id() % Five::kGroups * 16, d_first = warp_id() / Five::kGroups * Five::kWarpColumns;
  float* parts = dq_parts + (part * rows + p.row(head, 0)) * p.D;
  int end = (part + 1) * run * kRows < p.keys ? (part + 1) * run * kRows : p.keys;
  for (int s0 = part * run * kRows; s0 < end; s0 += kRows) {
    __syncthreads();
    load_keys<kMma, kRows, kD>(p, head, s0, shared.a, shared.c, shared.key_terms);
    Accumulators<kM, kD> dk, dv;
    clear<kM, kD>(dk);
    clear<kM, kD>(dv);
    for (int q0 = 0; q0 < p.queries; q0 += kN) {
      __syncthreads();
      load_queries<kMma, kN, kD>(p, head, q0, shared.b, shared.d, shared);
      load_deltas<kN>(p, head, q0, shared.delta);
      __syncthreads();
      Accumulators<kM, kN> w, g;  // 0 for keys after the last one
      weights_for_keys<kMma, kD>(p, head, shared, first, q0, s0, w, g, dv);
      for_each_index<kM, kN>([&](int m, int j, int i) { g[m][j][i] *= std::fabs(w[m][j][i]); });
      add_product<kMma, kM, kN, kD>(
          dk, [&](int m, int j, int i) { return g[m][j][i]; }, shared.b, shared.stage);
      if constexpr (!Five::kStaged)
        store_transposed<kMma, kM, kN>(transposed + first * kTransposedStride<kMma, kN>, g);
      __syncthreads();
#pragma unroll 1
      for (int d = d_first; d < d_first + Five::kWarpColumns && d < p.D; d += Five::kOut) {
        Accumulators<1, Five::kOut> dq;
        product_transposed<kMma, kRows, kN, kD, Five::kOut>(dq, transposed + q_first, shared.a + d);
        add_to_part<kMma, Five::kOut>(dq, d, p.D, s0 == part * run * kRows, p.pairs, [&](int row) {
          int q = q0 + q_first + row;
          return q < p.queries ? parts + int64_t{q} * p.D : nullptr;
        });
      }
    }
    store_key_gradients<kMma, kM, kD>(p, head, s0 + first, dk, dv);
  }
}

// dq = scale times the sum of the parts, in order. A thread owns kPack channels of a query.
template <int kPack, class Heads>
__global__ void __launch_bounds__(kJoinThreads)
    attention_join_queries(Heads p, const float* __restrict__ dq_parts, int64_t rows, int runs) {
  int64_t per = p.D / kPack, i = static_cast<int64_t>(blockIdx.x) * kJoinThreads + threadIdx.x;
  int64_t row = i / per;
  if (row >= rows) return;
  auto d = static_cast<int>(i - row * per) * kPack;
  float sum[kPack] = {};
#pragma unroll 4
  for (int part = 0; part < runs; ++part) {
    auto x = load_pack<kPack>(dq_parts + (part * rows + row) * p.D + d);
    for (int e = 0; e < kPack; ++e) sum[e] += x.x[e];
  }
  auto* out = p.dquery(p.head(row / p.queries), static_cast<int>(row % p.queries)) + d;
  using T = typename Heads::Element;
  Pack<T, kPack> value;
  for (int e = 0; e < kPack; ++e) value.x[e] = T(sum[e] * p.scale);
  store_pack(out, value);
}

// Enough blocks for a GPU of 132 multiprocessors, two each, as long as the parts take at most 256 MiB.
template <Mma kMma, int kD, class Heads>
int runs_of_keys(const Heads& p) {
  constexpr int64_t kBlocks = 264, kBytes = int64_t{256} << 20;
  const int64_t tiles = ceil_div(p.keys, FiveProducts<kMma, kD>::kRows);
  const int64_t part =
      std::max<int64_t>(1, p.count() * p.queries * p.D * static_cast<int64_t>(sizeof(float)));
  const int64_t runs =
      std::clamp<int64_t>(ceil_div(kBlocks, p.count()), 1, std::max<int64_t>(1, kBytes / part));
  return static_cast<int>(ceil_div(tiles, ceil_div(tiles, std::min(runs, tiles))));
}

// Returns whether the tiles of keys make enough blocks, each of which processes all queries, or the queries
// are few.
template <Mma kMma, int kD, class Heads>
bool fits_five_products(const Heads& p) {
  constexpr int64_t kBlocks = 132, kFewQueries = 32;  // in tiles of queries: soon done
  using Five = FiveProducts<kMma, kD>;
  return p.count() * ceil_div(p.keys, Five::kRows) >= kBlocks || p.queries <= kFewQueries * Five::kN;
}

// Computes dq, dk and dv; deltas must be known, and the bias needs no gradient.
template <Mma kMma, int kD, class Heads>
void launch_five_products(Heads p) {
  using Five = FiveProducts<kMma, kD>;
  find_accesses(p);
  const int runs = runs_of_keys<kMma, kD>(p);
  const auto run = static_cast<int>(ceil_div(ceil_div(p.keys, Five::kRows), runs));
  const int64_t rows = p.count() * p.queries;
  Tensor parts = Tensor::empty({runs, p.count(), p.queries, p.D}, DType::kF32, Device::kCuda);
  launch("attention_backward_tiles", &attention_backward_tiles<kMma, kD, Heads>,
         {p.count() * runs, Five::Shape::kThreads, Five::bytes()}, p, parts.data<float>(), rows, run, runs);
  with_packs<4>(packs_fit<4>(p.dq, p.D), [&]<int kPack>() {
    launch("attention_join_queries", &attention_join_queries<kPack, Heads>,
           {ceil_div(rows * (p.D / kPack), kJoinThreads), kJoinThreads}, p, parts.data<float>(), rows, runs);
  });
}

}  // namespace saccade::cuda
