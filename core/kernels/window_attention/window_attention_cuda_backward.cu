// Window attention backward on the GPU for f32 and bf16 heads of up to 128 channels:
// window_attention_cuda_backward.h if a window is one tile and tensor cores are used, otherwise the kernels
// of attention_cuda_backward.h over the heads of windows. The shape determines how sums over windows (the
// table, the fillers) are split.
#include "core/kernels/window_attention/window_attention_cuda_backward.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

using cuda::Mma;

// Copies sums by displacement to their rows of the table, which may be made for larger windows.
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

// Divides the windows into runs so that there are some thousand blocks, `blocks_a_run` per run. Returns
// [1, runs, size] for their sums.
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

// Whether window_backward_tiles supports heads of kD channels.
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
