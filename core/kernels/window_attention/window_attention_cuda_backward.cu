// Window attention backward on the GPU for f32 and bf16 heads of up to 128 channels: window_backward.h where
// a window is one tile and tensor cores compute, else the kernels of attention_backward.h over a
// WindowProblem. Sums over windows (the table, the fillers) are cut by the shape.
#include "core/kernels/reduce/reduce.h"
#include "core/kernels/window_attention/window_attention_cuda_backward.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

using cuda::Mma;

// The sum over the pairs of tokens that lie apart by the displacement of a row of the table.
struct FoldTable {     // i = row * H + h
  const float* pairs;  // [H, T2, T2]
  float* dtable;
  int window, table_side, H;
  SACCADE_HD void operator()(int64_t i) const {
    int row = static_cast<int>(i / H), h = static_cast<int>(i % H), tokens = window * window;
    int dy = row / table_side - table_side / 2, dx = row % table_side - table_side / 2;
    float sum = 0;
    for (int q = 0; q < tokens; ++q) {
      int y = q / window - dy, x = q % window - dx;
      if (y >= 0 && y < window && x >= 0 && x < window)
        sum += pairs[(int64_t{h} * tokens + q) * tokens + y * window + x];
    }
    dtable[i] = sum;
  }
};

// Sums by displacement to their rows of the table, which may be made for larger windows.
struct PlaceInTable {          // i = row * H + h
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

// Cuts the windows into runs for some thousand blocks, of which a run has `blocks_a_run`.
template <class Problem>
int64_t cut_into_runs(Problem& p, int64_t blocks_a_run) {
  constexpr int64_t kBlocks = 4096;
  p.group_windows = std::max<int64_t>(2, ceil_div(p.windows() * blocks_a_run, kBlocks));
  return ceil_div(p.windows(), p.group_windows);
}

Tensor sum_runs(const Tensor& runs) {
  Tensor total = Tensor::empty({1, runs.dim(2)}, DType::kF32, Device::kCuda);
  sum_middle(runs, 1, total);
  return total;
}

template <Mma kMma, int kD>
void launch_tiles(cuda::WindowProblem<cuda::Stored<kMma>>& p, Tensor& dtable) {
  int64_t runs = cut_into_runs(p, p.num_heads);
  Tensor displacements;
  if (dtable.defined())
    displacements =
        Tensor::empty({1, runs, int64_t{p.num_heads} * p.side() * p.side()}, DType::kF32, Device::kCuda);
  cuda::launch("window_backward_tiles", &cuda::window_backward_tiles<kMma, kD>,
               dim3(static_cast<unsigned>(runs * p.num_heads)), dim3(2 * cuda::kWindowRows),
               cuda::WindowBackwardShared<kMma, kD>::bytes() + p.head_bytes(), p,
               data_or_null<float>(displacements));
  if (!dtable.defined()) return;
  Tensor total = sum_runs(displacements);
  for_each(dtable.numel(),
           PlaceInTable{total.data<float>(), dtable.data<float>(), p.side(), p.table_side, p.num_heads});
}

// Whether there is a window_backward_tiles for heads of kD channels.
template <Mma kMma, int kD>
constexpr bool kHasTiles = (kMma == Mma::kTf32 && kD <= 32) || (kMma == Mma::kBf16 && kD <= 64);

template <Mma kMma, int kD, class T>
void launch_backward(cuda::WindowProblem<T>& p, Tensor& dtable) {
  using Problem = cuda::WindowProblem<T>;
  using Shape = cuda::BackwardShape<kMma, kD>;
  if constexpr (kHasTiles<kMma, kD>) {
    if (p.queries <= cuda::kWindowRows) return launch_tiles<kMma, kD>(p, dtable);
  }
  size_t shared = cuda::BackwardShared<kMma, kD>::bytes() + p.head_bytes();
  auto rows = static_cast<unsigned>(ceil_div(p.queries, Shape::kRows)),
       columns = static_cast<unsigned>(ceil_div(p.keys, Shape::kColumns));
  auto blocks = static_cast<unsigned>(p.heads() * rows);
  cuda::launch("attention_backward_queries", &cuda::attention_backward_queries<kMma, kD, Problem>,
               dim3(blocks), dim3(Shape::kThreads), shared, p);
  if (p.dqkv || p.fillers) {
    cuda::launch("attention_backward_keys", &cuda::attention_backward_keys<kMma, kD, Problem>, dim3(blocks),
                 dim3(Shape::kThreads), shared, p);
  }
  if (!dtable.defined()) return;
  int64_t runs = cut_into_runs(p, p.num_heads * rows * columns);
  Tensor pairs =
      Tensor::empty({1, runs, int64_t{p.num_heads} * p.queries * p.keys}, DType::kF32, Device::kCuda);
  p.dpairs = pairs.data<float>();
  cuda::launch("attention_backward_pairs", &cuda::attention_backward_pairs<kMma, kD, Problem>,
               dim3(columns, rows, static_cast<unsigned>(runs * p.num_heads)), dim3(Shape::kThreads), shared,
               p);
  Tensor total = sum_runs(pairs);
  for_each(dtable.numel(),
           FoldTable{total.data<float>(), dtable.data<float>(), p.map.window, p.table_side, p.num_heads});
}

void backward_cuda(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                   const WindowParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                   Tensor& dtable, Tensor& dpadding) {
  Tensor delta = lse.empty_like(), fillers;
  cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, [&]<Mma kMma, int kD>() {
    using T = cuda::Stored<kMma>;
    cuda::WindowProblem<T> p(qkv, table, padding, mask, params);
    p.dy_map = dy.data<T>();
    p.packs = p.packs && cuda::packs_fit<cuda::kPackWidth<T>>(p.dy_map, p.Dv);
    p.dqkv = data_or_null<T>(dqkv);
    p.lse = const_cast<float*>(lse.data<float>());
    p.delta = delta.data<float>();
    int64_t count = int64_t{p.N} * p.map.fillers(), C = p.C;
    if (dpadding.defined() && count > 0) {
      fillers = Tensor::empty({1, count, 2 * C}, DType::kF32, Device::kCuda);
      p.fillers = fillers.data<float>();
    }
    launch_backward<kMma, kD>(p, dtable);
    if (!dpadding.defined()) return;
    // The queries of fillers have no output.
    dpadding.slice(0, 0, count > 0 ? C : 3 * C).fill(0);
    if (count > 0) {
      Tensor sums = dpadding.slice(0, C, 3 * C);
      sum_middle(fillers, 1, sums);
    }
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
