// Attention backward over the heads of attention_heads.h; the weights are recomputed from lse. Every gradient
// has one owner that adds in a fixed order, so there are no atomics:
//   attention_backward_queries  a block owns queries and computes dq and, if not known, delta, the sum of
//                               weight * dweight of a row
//   attention_backward_keys     a block owns keys (and a run of the queries, if these are many and the blocks
//                               few) and computes dk and dv; its scores are transposed, so that their
//                               gradients are in registers as the first operand of the products
//   attention_backward_pairs    a block owns a tile of the pair terms and adds over the heads that share them
#pragma once

#include <algorithm>

#include "core/kernels/attention/attention_cuda.h"
#include "core/tensor/math.h"

namespace saccade::cuda {

template <Mma kMma, int kD>
using BackwardShape = std::conditional_t<
    kMma == Mma::kBf16, TileShape<64, kD <= 32 ? 64 : 32, 1, 4>,
    std::conditional_t<kD == 128, TileShape<32, 32, 1, 2>,
                       std::conditional_t<kMma == Mma::kFma && kD <= 32, TileShape<64, 32, 2, 2>,
                                          TileShape<64, kMma == Mma::kFma ? 32 : 64, 1, 4>>>>;

// Blocks per multiprocessor that the registers must allow. 0: as many as the compiler finds best, which is
// too many if it would rather spill registers.
template <Mma kMma, int kD>
inline constexpr int kQueryBlocks = kMma != Mma::kFma&& kD == 16 ? 2 : 0;
template <Mma kMma, int kD>
inline constexpr int kKeyBlocks = kMma == Mma::kFma&& kD == 32 ? 4 : 0;
template <Mma kMma, int kD>
inline constexpr int kPairBlocks = kMma == Mma::kBf16&& kD == 16 ? 3 : 0;

// The shared memory of the three kernels: two tiles whose rows the block owns and two that it streams, and
// numbers of the rows and columns.
template <Mma kMma, int kD>
struct BackwardShared {
  using Shape = BackwardShape<kMma, kD>;
  using T = Stored<kMma>;
  static constexpr int kStride = kTileStride<kMma, kD>;
  static constexpr int kNumbers = Shape::kRows > Shape::kColumns ? Shape::kRows : Shape::kColumns;
  static constexpr int kStage = kStageFloats<kMma, Shape::kM, Shape::kColumns>;
  T *a, *c;  // rows: queries and dy, or keys and values
  T *b, *d;  // columns: keys and values, or queries and dy
  float *key_terms, *lse, *delta, *stage, *rest;

  static constexpr size_t bytes() {
    return 2 * tile_bytes<kMma, kD>(Shape::kRows) + 2 * tile_bytes<kMma, kD>(Shape::kColumns) +
           sizeof(float) * (3 * kNumbers + Shape::kWarps * kStage);
  }
  __device__ explicit BackwardShared(char* shared) {
    a = reinterpret_cast<T*>(shared);
    c = a + Shape::kRows * kStride;
    b = c + Shape::kRows * kStride;
    d = b + Shape::kColumns * kStride;
    key_terms = reinterpret_cast<float*>(d + Shape::kColumns * kStride);
    lse = key_terms + kNumbers;
    delta = lse + kNumbers;
    stage = delta + kNumbers + warp_id() * kStage;
    rest = delta + kNumbers + Shape::kWarps * kStage;
  }
};

template <Mma kMma, int kRows, int kD, class Heads, class Shared>
__device__ __forceinline__ void load_queries(const Heads& p, const typename Heads::Head& head, int q0,
                                             Stored<kMma>* q_tile, Stored<kMma>* dy_tile,
                                             const Shared& shared) {
  load_tile<kMma, kRows, kD>(q_tile, p.D, p.packs, [&](int r) { return p.query(head, q0 + r); });
  load_tile<kMma, kRows, kD>(dy_tile, p.Dv, p.packs, [&](int r) { return p.dy(head, q0 + r); });
  for (int r = static_cast<int>(threadIdx.x); r < kRows; r += static_cast<int>(blockDim.x)) {
    // exp(z - inf) = 0: for rows without keys and after the last one.
    float value = q0 + r < p.queries ? p.lse[p.row(head, q0 + r)] : kMinusInfinity;
    shared.lse[r] = value == kMinusInfinity ? -kMinusInfinity : value;
  }
}
template <int kRows, class Heads>
__device__ __forceinline__ void load_deltas(const Heads& p, const typename Heads::Head& head, int q0,
                                            float* delta) {
  for (int r = static_cast<int>(threadIdx.x); r < kRows; r += static_cast<int>(blockDim.x))
    delta[r] = q0 + r < p.queries ? p.delta[p.row(head, q0 + r)] : 0.0f;
}
template <Mma kMma, int kRows, int kD, class Heads>
__device__ __forceinline__ void load_keys(const Heads& p, const typename Heads::Head& head, int s0,
                                          Stored<kMma>* k_tile, Stored<kMma>* v_tile, float* key_terms) {
  load_tile<kMma, kRows, kD>(k_tile, p.D, p.packs, [&](int r) { return p.key(head, s0 + r); });
  load_tile<kMma, kRows, kD>(v_tile, p.Dv, p.packs, [&](int r) { return p.value(head, s0 + r); });
  for (int r = static_cast<int>(threadIdx.x); r < kRows; r += static_cast<int>(blockDim.x))
    key_terms[r] = p.key_term(head, s0 + r);
}

// For the warp's rows: w = the weights before dropout, with the sign bit set if they are dropped; g =
// d(loss)/d(those weights). q0 and s0 are the indices of the first query and key; kTransposed: rows are keys.
template <Mma kMma, int kD, bool kTransposed, class Heads, class Shared, int kM, int kN>
__device__ __forceinline__ void weights_and_gradients(const Heads& p, const typename Heads::Head& head,
                                                      const Shared& shared, int first, int q0, int s0,
                                                      Accumulators<kM, kN>& w, Accumulators<kM, kN>& g) {
  product<kMma, kM, kN, kD>(w, shared.a + first * Shared::kStride, shared.b);
  product<kMma, kM, kN, kD>(g, shared.c + first * Shared::kStride, shared.d);
  for_each_element<kM, kN>(w, [&](float& x, int, int, int row, int column) {
    x = math::fma(x, p.scale, shared.key_terms[kTransposed ? first + row : column]);
  });
  int r0 = first + (kTransposed ? s0 : q0), c0 = kTransposed ? q0 : s0;
  if (p.has_pair_terms()) {
    for_each_element<kM, kN>(w, [&](float& x, int, int, int row, int column) {
      x += kTransposed ? p.pair_term(head, c0 + column, r0 + row) : p.pair_term(head, r0 + row, c0 + column);
    });
  }
  for_each_element<kM, kN>(w, [&](float& x, int, int, int row, int column) {
    x = exp_of_difference(x, shared.lse[kTransposed ? column : first + row]);
  });
  if (p.dropout.probability > 0) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        unsigned zeros = kTransposed
                             ? dropped_transposed(p.dropout, p.row(head, c0 + 8 * j), r0 + 16 * m, p.keys)
                             : dropped(p.dropout, p.row(head, r0 + 16 * m), c0 + 8 * j, p.keys);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          bool zero = zeros >> i & 1u;
          g[m][j][i] = zero ? 0.0f : g[m][j][i] * p.dropout.factor;
          if (zero) w[m][j][i] = -w[m][j][i];
        }
      }
  }
}

template <Mma kMma, int kD, class Heads>
__global__ void __launch_bounds__(BackwardShape<kMma, kD>::kThreads, kQueryBlocks<kMma, kD>)
    attention_backward_queries(Heads p) {
  using Shape = BackwardShape<kMma, kD>;
  using T = Stored<kMma>;
  constexpr int kM = Shape::kM, kN = Shape::kColumns;
  SACCADE_DYNAMIC_SHARED(char, bytes);
  BackwardShared<kMma, kD> shared(bytes);
  int tiles = (p.queries + Shape::kRows - 1) / Shape::kRows;
  auto head = p.head(blockIdx.x / tiles, shared.rest);
  int q0 = static_cast<int>(blockIdx.x) % tiles * Shape::kRows, first = warp_id() * 16 * kM;
  bool active = q0 + first < p.queries;
  load_queries<kMma, Shape::kRows, kD>(p, head, q0, shared.a, shared.c, shared);

  Accumulators<kM, kN> w, g;
  float delta[kM][2] = {};
  if (p.deltas_known) {
    for_each_row<kM>([&](int m, int r) {
      int q = q0 + first + 16 * m + lane_id() / 4 + 8 * r;
      delta[m][r] = q < p.queries ? p.delta[p.row(head, q)] : 0.0f;
    });
  } else {
    for (int s0 = 0; s0 < p.keys; s0 += kN) {
      __syncthreads();
      load_keys<kMma, kN, kD>(p, head, s0, shared.b, shared.d, shared.key_terms);
      __syncthreads();
      if (!active) continue;
      weights_and_gradients<kMma, kD, false, Heads, BackwardShared<kMma, kD>, kM, kN>(p, head, shared, first,
                                                                                      q0, s0, w, g);
      for_each_index<kM, kN>(
          [&](int m, int j, int i) { delta[m][i / 2] += std::fabs(w[m][j][i]) * g[m][j][i]; });
    }
    for_each_row<kM>([&](int m, int r) {
      delta[m][r] = warp_sum<4>(delta[m][r]);
      int q = q0 + first + 16 * m + lane_id() / 4 + 8 * r;
      if (lane_id() % 4 == 0 && q < p.queries && p.owns_row(head, q)) p.delta[p.row(head, q)] = delta[m][r];
    });
  }

  bool pairs_here = p.dpairs != nullptr && p.one_member();
  if (!p.wants_dq() && !pairs_here) return;
  Accumulators<kM, kD> dq;
  clear<kM, kD>(dq);
  bool again = p.deltas_known || p.keys > kN;
  for (int s0 = 0; s0 < p.keys; s0 += kN) {
    if (again) {  // otherwise the only tile is still in shared memory and registers
      __syncthreads();
      load_keys<kMma, kN, kD>(p, head, s0, shared.b, shared.d, shared.key_terms);
      __syncthreads();
    }
    if (!active) continue;
    if (again)
      weights_and_gradients<kMma, kD, false, Heads, BackwardShared<kMma, kD>, kM, kN>(p, head, shared, first,
                                                                                      q0, s0, w, g);
    for_each_element<kM, kN>(g, [&](float& x, int m, int r, int, int) { x -= delta[m][r]; });
    for_each_index<kM, kN>([&](int m, int j, int i) { g[m][j][i] *= std::fabs(w[m][j][i]); });
    if (pairs_here) {
      for_each_element<kM, kN>(g, [&](float& x, int, int, int row, int column) {
        int q = q0 + first + row, s = s0 + column;
        if (q < p.queries && s < p.keys) p.dpairs[p.row(head, q) * p.keys + s] = x;
      });
    }
    if (p.wants_dq())
      add_product<kMma, kM, kN, kD>(
          dq, [&](int m, int j, int i) { return g[m][j][i]; }, shared.b, shared.stage);
  }
  if (!active) return;
  for_each_row<kM>([&](int m, int r) {
    if (T* row = p.dquery(head, q0 + first + 16 * m + lane_id() / 4 + 8 * r))
      store_row<kMma, kM, kD>(row, dq, m, r, p.D, p.pairs, p.scale);
  });
}

// Stores the warp's rows of dk and dv, from key s0 on.
template <Mma kMma, int kM, int kD, class Heads>
__device__ __forceinline__ void store_key_gradients(const Heads& p, const typename Heads::Head& head, int s0,
                                                    const Accumulators<kM, kD>& dk,
                                                    const Accumulators<kM, kD>& dv) {
  using T = Stored<kMma>;
  for_each_row<kM>([&](int m, int r) {
    int s = s0 + 16 * m + lane_id() / 4 + 8 * r;
    if (T* row = p.dkey(head, s)) store_row<kMma, kM, kD>(row, dk, m, r, p.D, p.pairs, p.scale);
    if (T* row = p.dvalue(head, s)) store_row<kMma, kM, kD>(row, dv, m, r, p.Dv, p.pairs, 1.0f);
    if (float* row = p.filler(head, s, 0)) store_row<kMma, kM, kD>(row, dk, m, r, p.D, false, p.scale);
    if (float* row = p.filler(head, s, 1)) store_row<kMma, kM, kD>(row, dv, m, r, p.Dv, false, 1.0f);
  });
}

// For a tile of transposed scores: w as in weights_and_gradients, g minus the queries' deltas; adds to dv.
template <Mma kMma, int kD, class Heads, class Shared, int kM, int kN>
__device__ __forceinline__ void weights_for_keys(const Heads& p, const typename Heads::Head& head,
                                                 const Shared& shared, int first, int q0, int s0,
                                                 float (&w)[kM][kN][4], float (&g)[kM][kN][4],
                                                 Accumulators<kM, kD>& dv) {
  weights_and_gradients<kMma, kD, true, Heads, Shared, kM, 8 * kN>(p, head, shared, first, q0, s0, w, g);
  add_product<kMma, kM, 8 * kN, kD>(
      dv, [&](int m, int j, int i) { return w[m][j][i] < 0 ? 0.0f : w[m][j][i] * p.dropout.factor; },
      shared.d, shared.stage);
  for_each_element<kM, 8 * kN>(g, [&](float& x, int, int, int, int column) { x -= shared.delta[column]; });
}

// If many queries see few keys, several blocks share a tile of keys: each takes a run of the queries and
// writes its parts of dk and dv, [runs, heads, keys, D + Dv], unless there is only one run.
struct QueryRuns {
  int count = 1;
  float* parts = nullptr;
};

// Only if enough registers are left.
template <Mma kMma, int kD>
constexpr bool kHasRuns = kMma != Mma::kFma || kD < 128;

template <Mma kMma, int kD, class Heads>
__global__ void __launch_bounds__(BackwardShape<kMma, kD>::kThreads, kKeyBlocks<kMma, kD>)
    attention_backward_keys(Heads p, QueryRuns runs) {
  using Shape = BackwardShape<kMma, kD>;
  constexpr int kM = Shape::kM, kN = Shape::kColumns;
  SACCADE_DYNAMIC_SHARED(char, bytes);
  BackwardShared<kMma, kD> shared(bytes);
  const int tiles = (p.keys + Shape::kRows - 1) / Shape::kRows, count = kHasRuns<kMma, kD> ? runs.count : 1,
            run = static_cast<int>(blockIdx.x) % count;
  const unsigned tile = blockIdx.x / count, number = tile / tiles;
  auto head = p.head(number, shared.rest);
  int s0 = static_cast<int>(tile) % tiles * Shape::kRows, first = warp_id() * 16 * kM;
  bool active = s0 + first < p.keys;
  load_keys<kMma, Shape::kRows, kD>(p, head, s0, shared.a, shared.c, shared.key_terms);

  Accumulators<kM, kD> dk, dv;
  clear<kM, kD>(dk);
  clear<kM, kD>(dv);
  int begin = 0, end = p.queries_of(head);
  if constexpr (kHasRuns<kMma, kD>) {
    const int a_run = ((end + kN - 1) / kN + runs.count - 1) / runs.count * kN;
    begin = run * a_run;
    if (end > begin + a_run) end = begin + a_run;
  }
  for (int q0 = begin; q0 < end; q0 += kN) {
    __syncthreads();
    load_queries<kMma, kN, kD>(p, head, q0, shared.b, shared.d, shared);
    load_deltas<kN>(p, head, q0, shared.delta);
    __syncthreads();
    if (!active) continue;
    Accumulators<kM, kN> w, g;
    weights_for_keys<kMma, kD>(p, head, shared, first, q0, s0, w, g, dv);
    add_product<kMma, kM, kN, kD>(
        dk, [&](int m, int j, int i) { return std::fabs(w[m][j][i]) * g[m][j][i]; }, shared.b, shared.stage);
  }
  if (!active) return;
  if (!kHasRuns<kMma, kD> || runs.parts == nullptr)
    return store_key_gradients<kMma, kM, kD>(p, head, s0 + first, dk, dv);
  const int64_t heads = gridDim.x / static_cast<unsigned>(tiles * runs.count);
  for_each_row<kM>([&](int m, int r) {
    const int s = s0 + first + 16 * m + lane_id() / 4 + 8 * r;
    if (s >= p.keys) return;
    float* row = runs.parts + ((run * heads + number) * p.keys + s) * (p.D + p.Dv);
    store_row<kMma, kM, kD>(row, dk, m, r, p.D, p.pairs, p.scale);
    store_row<kMma, kM, kD>(row + p.D, dv, m, r, p.Dv, p.pairs, 1.0f);
  });
}

constexpr int kJoinThreads = 256;

// dk and dv: the sums of the runs' parts, in order.
template <class Heads>
__global__ void __launch_bounds__(kJoinThreads) attention_join_keys(Heads p, QueryRuns runs, int64_t rows) {
  const int64_t size = p.D + p.Dv, i = static_cast<int64_t>(blockIdx.x) * kJoinThreads + threadIdx.x;
  const int64_t row = i / size;
  if (row >= rows) return;
  float sum = 0;
  for (int run = 0; run < runs.count; ++run) sum += runs.parts[(run * rows + row) * size + i - row * size];
  const auto head = p.head(row / p.keys);
  const auto s = static_cast<int>(row % p.keys), d = static_cast<int>(i - row * size);
  auto* out = d < p.D ? p.dkey(head, s) : p.dvalue(head, s);
  if (out != nullptr) out[d < p.D ? d : d - p.D] = typename Heads::Element(sum);
}

// Enough blocks for a GPU of 132 multiprocessors, four each, as long as each has several tiles of queries.
template <Mma kMma, int kD, class Heads>
void launch_backward_keys(const Heads& p, size_t shared_bytes) {
  using Shape = BackwardShape<kMma, kD>;
  constexpr int64_t kBlocks = 528, kFewest = 4;
  const int64_t blocks = p.count() * ceil_div(p.keys, Shape::kRows);
  QueryRuns runs;
  Tensor parts;
  if constexpr (requires { p.head(int64_t{}); }) {  // windows are many already
    const int64_t most =
        kHasRuns<kMma, kD> ? std::max<int64_t>(1, p.queries / (kFewest * Shape::kColumns)) : 1;
    runs.count = static_cast<int>(std::clamp<int64_t>(kBlocks / blocks, 1, most));
    if (runs.count > 1) {
      parts = Tensor::empty({runs.count, p.count(), p.keys, p.D + p.Dv}, DType::kF32, Device::kCuda);
      runs.parts = parts.data<float>();
    }
  }
  launch("attention_backward_keys", &attention_backward_keys<kMma, kD, Heads>,
         {blocks * runs.count, Shape::kThreads, shared_bytes}, p, runs);
  if constexpr (requires { p.head(int64_t{}); }) {
    if (runs.count == 1) return;
    const int64_t rows = p.count() * p.keys;
    launch("attention_join_keys", &attention_join_keys<Heads>,
           {ceil_div(rows * (p.D + p.Dv), kJoinThreads), kJoinThreads}, p, runs, rows);
  }
}

// blockIdx: x is a tile of keys, y a tile of queries, z the group.
template <Mma kMma, int kD, class Heads>
__global__ void __launch_bounds__(BackwardShape<kMma, kD>::kThreads, kPairBlocks<kMma, kD>)
    attention_backward_pairs(Heads p) {
  using Shape = BackwardShape<kMma, kD>;
  constexpr int kM = Shape::kM, kN = Shape::kColumns;
  SACCADE_DYNAMIC_SHARED(char, bytes);
  BackwardShared<kMma, kD> shared(bytes);
  int s0 = static_cast<int>(blockIdx.x) * kN, q0 = static_cast<int>(blockIdx.y) * Shape::kRows;
  int first = warp_id() * 16 * kM, group = static_cast<int>(blockIdx.z);
  bool active = q0 + first < p.queries;
  Accumulators<kM, kN> sum;
  clear<kM, kN>(sum);
  int64_t members = p.members(group);
  for (int64_t i = 0; i < members; ++i) {
    __syncthreads();
    auto head = p.head(p.member(group, i), shared.rest);
    load_queries<kMma, Shape::kRows, kD>(p, head, q0, shared.a, shared.c, shared);
    load_deltas<Shape::kRows>(p, head, q0, shared.delta);
    load_keys<kMma, kN, kD>(p, head, s0, shared.b, shared.d, shared.key_terms);
    __syncthreads();
    if (!active) continue;
    Accumulators<kM, kN> w, g;
    weights_and_gradients<kMma, kD, false, Heads, BackwardShared<kMma, kD>, kM, kN>(p, head, shared, first,
                                                                                    q0, s0, w, g);
    for_each_element<kM, kN>(g, [&](float& x, int, int, int row, int) { x -= shared.delta[first + row]; });
    for_each_index<kM, kN>([&](int m, int j, int e) { sum[m][j][e] += std::fabs(w[m][j][e]) * g[m][j][e]; });
  }
  if (!active) return;
  float* out = p.dpairs + int64_t{group} * p.queries * p.keys;
  for_each_element<kM, kN>(sum, [&](float& x, int, int, int row, int column) {
    int q = q0 + first + row, s = s0 + column;
    if (q < p.queries && s < p.keys) out[int64_t{q} * p.keys + s] = x;
  });
}

template <Mma kMma, int kD, class Heads>
void launch_attention_backward(Heads p) {
  using Shape = BackwardShape<kMma, kD>;
  find_accesses(p);
  size_t shared = BackwardShared<kMma, kD>::bytes() + p.head_bytes();
  const int64_t query_tiles = ceil_div(p.queries, Shape::kRows);
  if (query_tiles > 0)
    launch("attention_backward_queries", &attention_backward_queries<kMma, kD, Heads>,
           {p.count() * query_tiles, Shape::kThreads, shared}, p);
  if (p.keys > 0 && p.wants_key_gradients()) launch_backward_keys<kMma, kD>(p, shared);
  // With one member per group, the kernel over the queries has already written them.
  if (p.dpairs && !p.one_member() && p.queries > 0 && p.keys > 0) {
    launch("attention_backward_pairs", &attention_backward_pairs<kMma, kD, Heads>,
           {{ceil_div(p.keys, Shape::kColumns), query_tiles, p.groups()}, Shape::kThreads, shared}, p);
  }
}

}  // namespace saccade::cuda
