// Window attention backward on the GPU for f32 and bf16 heads of up to 128 channels. Where a window is one
// tile (up to 64 tokens) and the products run on tensor cores, a block takes one head of a run of windows and
// computes each weight once: with queries as rows, dq and the deltas are a warp's own; the weights and the
// gradients of the scores then go through shared memory to be the transposed factors of dv and dk. The
// gradients of the bias stay in registers until the run ends and leave the block folded by displacement.
// Else the kernels of attention_cuda_backward.h run over the heads of windows. Sums over windows (the table,
// the fillers) are cut by the shape.
#include "core/kernels/attention/attention_cuda_backward.h"
#include "core/kernels/window_attention/window_attention_cuda.h"
#include "core/runtime/launch.h"

namespace saccade::cuda {

constexpr int kWindowRows = 64;  // tokens, at most: four warps of 16

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
// gradients of the pairs (q, k) by the place of q as seen from k; null where they are not wanted.
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

  // The tiles and weights make room for the sums as f32 [64, 65].
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

namespace saccade::kernels {
namespace {

using cuda::Mma;

// Sums by displacement to their rows of the table, which may be made for larger windows.
struct TableIndex {            // i = row * H + h
  const float* displacements;  // [H, side, side]
  float* dtable;
  int side, table_side, H;
  SACCADE_HD void operator()(int64_t i) const {
    int row = static_cast<int>(i / H), h = static_cast<int>(i % H), margin = (table_side - side) / 2;
    int y = row / table_side - margin, x = row % table_side - margin;
    bool inside = y >= 0 && y < side && x >= 0 && x < side;
    dtable[i] = inside ? displacements[(int64_t{h} * side + y) * side + x] : 0.0f;
  }
};

// Cuts the windows into runs for some thousand blocks, of which a run has `blocks_a_run`; [1, runs, size] for
// their sums.
template <class Heads>
Tensor cut_into_runs(Heads& p, int64_t blocks_a_run, int64_t size) {
  constexpr int64_t kBlocks = 4096;
  p.group_windows = std::max<int64_t>(2, ceil_div(p.windows() * blocks_a_run, kBlocks));
  return Tensor::empty({1, p.groups() / p.H, size}, DType::kF32, Device::kCuda);
}

Tensor sum_runs(const Tensor& runs) {
  Tensor total = Tensor::empty({1, runs.dim(2)}, DType::kF32, Device::kCuda);
  sum_middle(runs, 1, total);
  return total;
}

template <Mma kMma, int kD, class Heads>
void launch_tiles(Heads& p, Tensor& dtable) {
  cuda::find_accesses(p);
  Tensor displacements = cut_into_runs(p, p.H, int64_t{p.H} * p.side() * p.side());
  cuda::launch(
      "window_backward_tiles", &cuda::window_backward_tiles<kMma, kD>,
      {p.groups(), 2 * cuda::kWindowRows, cuda::WindowBackwardShared<kMma, kD>::bytes() + p.head_bytes()}, p,
      dtable.defined() ? displacements.data<float>() : nullptr);
  if (!dtable.defined()) return;
  Tensor total = sum_runs(displacements);
  for_each(dtable.numel(),
           TableIndex{total.data<float>(), dtable.data<float>(), p.side(), p.table_side, p.H});
}

// Whether there is a window_backward_tiles for heads of kD channels.
template <Mma kMma, int kD>
constexpr bool kHasTiles = (kMma == Mma::kTf32 && kD <= 32) || (kMma == Mma::kBf16 && kD <= 64);

template <Mma kMma, int kD, class Heads>
void launch_backward(Heads& p, Tensor& dtable) {
  using Shape = cuda::BackwardShape<kMma, kD>;
  if constexpr (kHasTiles<kMma, kD>) {
    if (p.queries <= cuda::kWindowRows) return launch_tiles<kMma, kD>(p, dtable);
  }
  Tensor pairs;
  if (dtable.defined()) {
    int64_t tiles = ceil_div(p.queries, Shape::kRows) * ceil_div(p.keys, Shape::kColumns);
    pairs = cut_into_runs(p, p.H * tiles, int64_t{p.H} * p.queries * p.keys);
    p.dpairs = pairs.data<float>();
  }
  cuda::launch_attention_backward<kMma, kD>(p);
  if (!dtable.defined()) return;
  Tensor total = sum_runs(pairs);
  for_each(dtable.numel(), FoldTable<float>{total.data<float>(), dtable.data<float>(), p.map.window,
                                            p.table_side, p.H, p.keys});
}

void backward_cuda(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                   const WindowParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                   Tensor& dtable, Tensor& dpadding) {
  cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, [&]<Mma kMma, int kD>() {
    cuda::WindowTiles<cuda::Stored<kMma>> p(qkv, table, padding, mask, params);
    p.with_gradients(lse, dy, dqkv, dpadding, [&] { launch_backward<kMma, kD>(p, dtable); });
  });
}

template <class... A>
bool supported(const Tensor& qkv, const Tensor&, const Tensor&, const Tensor&, const WindowParams& params,
               const A&...) {
  bool fits = false;
  auto measure = [&]<Mma kMma, int kD>() {
    size_t bytes = cuda::BackwardShared<kMma, kD>::bytes() + cuda::window_head_bytes(params.window);
    fits = (kHasTiles<kMma, kD> && params.window * params.window <= cuda::kWindowRows) ||
           bytes <= cuda::kWindowSharedBytes;
  };
  return qkv.numel() > 0 && cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, measure) &&
         fits;
}

SACCADE_REGISTER_TUNED_KERNEL(window_attention_backward, Device::kCuda, &backward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
