// Neighbourhood attention on the GPU for f32 and bf16 heads of up to 128 channels: attention's kernels over
// tiles of the map (neighbour_tiles_cuda.h). Tiles of queries yield y, dq and the gradient of the table,
// tiles of keys dk and dv: each number has one owner. The shape determines how sums over tiles are split.
#include "core/kernels/attention/attention_cuda_backward.h"
#include "core/kernels/attention/attention_cuda_forward.h"
#include "core/kernels/neighbourhood_attention/neighbour_tiles_cuda.h"
#include "core/kernels/reduce/reduce.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

using cuda::Mma, cuda::NeighbourTileHeads, cuda::Stored, cuda::TileOf;

// An entry of the table sums the pairs whose key has this displacement from the query.
struct FoldNeighbours {  // i = (h * side + v) * side + u
  const float* pairs;    // [H, queries, keys] of a tile
  float* dtable;
  int window, patch_rows, patch_columns;
  SACCADE_HD void operator()(int64_t i) const {
    const int side = 2 * window - 1, h = static_cast<int>(i / (side * side));
    const int v = static_cast<int>(i / side % side), u = static_cast<int>(i % side), reach = window / 2;
    constexpr int kRows = cuda::kNeighbourRows, kColumns = cuda::kNeighbourColumns;
    const float* own = pairs + int64_t{h} * kRows * kColumns * patch_rows * patch_columns;
    float sum = 0;
    for (int q = 0; q < kRows * kColumns; ++q) {
      const int ky = q / kColumns + reach + v - (window - 1), kx = q % kColumns + reach + u - (window - 1);
      if (ky >= 0 && ky < patch_rows && kx >= 0 && kx < patch_columns)
        sum += own[(int64_t{q} * patch_rows + ky) * patch_columns + kx];
    }
    dtable[i] = sum;
  }
};

void forward_cuda(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                  const NeighbourhoodParams& params, Tensor& y, Tensor& lse) {
  if (lse.numel() == 0) return;
  cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, [&]<Mma kMma, int kD>() {
    NeighbourTileHeads<Stored<kMma>, TileOf::kQueries> p(qkv, table, mask, params);
    p.y = y.data<Stored<kMma>>();
    p.lse = lse.data<float>();
    cuda::launch_attention_forward<kMma, kD>(p);
  });
}

template <Mma kMma, int kD, class Heads>
void launch_table(Heads p, Tensor& dtable) {
  using Shape = cuda::BackwardShape<kMma, kD>;
  // Some thousand blocks share the tiles.
  constexpr int64_t kBlocks = 2048;
  const int64_t blocks = ceil_div(p.queries, Shape::kRows) * ceil_div(p.keys, Shape::kColumns);
  p.group_tiles = static_cast<int>(std::max<int64_t>(2, ceil_div(p.count() * blocks, kBlocks)));
  const int64_t size = int64_t{p.H} * p.queries * p.keys;
  Tensor pairs = Tensor::empty({1, p.groups() / p.H, size}, DType::kF32, Device::kCuda);
  p.dpairs = pairs.data<float>();
  cuda::launch("attention_backward_pairs", &cuda::attention_backward_pairs<kMma, kD, Heads>,
               {{ceil_div(p.keys, Shape::kColumns), ceil_div(p.queries, Shape::kRows), p.groups()},
                Shape::kThreads,
                cuda::BackwardShared<kMma, kD>::bytes() + p.head_bytes()},
               p);
  Tensor total = Tensor::empty({1, size}, DType::kF32, Device::kCuda);
  sum_middle(pairs, 1, total);
  for_each(dtable.numel(), FoldNeighbours{total.data<float>(), dtable.data<float>(), p.window(),
                                          p.rows.patch(), p.columns.patch()});
}

void backward_cuda(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                   const NeighbourhoodParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                   Tensor& dtable) {
  Tensor deltas = lse.empty_like();
  cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, [&]<Mma kMma, int kD>() {
    using Shape = cuda::BackwardShape<kMma, kD>;
    using Queries = NeighbourTileHeads<Stored<kMma>, TileOf::kQueries>;
    using Keys = NeighbourTileHeads<Stored<kMma>, TileOf::kKeys>;
    Queries of_queries(qkv, table, mask, params);
    of_queries.set_gradients(lse, deltas, dy, dqkv);
    cuda::find_accesses(of_queries);
    constexpr size_t kShared = cuda::BackwardShared<kMma, kD>::bytes();
    cuda::launch("attention_backward_queries", &cuda::attention_backward_queries<kMma, kD, Queries>,
                 {of_queries.count() * ceil_div(of_queries.queries, Shape::kRows), Shape::kThreads,
                  kShared + of_queries.head_bytes()},
                 of_queries);
    if (dqkv.defined()) {
      Keys of_keys(qkv, table, mask, params);
      of_keys.set_gradients(lse, deltas, dy, dqkv);
      cuda::find_accesses(of_keys);
      cuda::launch_backward_keys<kMma, kD>(of_keys, kShared + of_keys.head_bytes());
    }
    if (dtable.defined()) launch_table<kMma, kD>(of_queries, dtable);
  });
}

template <class... A>
bool supported(const Tensor& qkv, const Tensor& table, const Tensor& mask, const NeighbourhoodParams& params,
               const A&...) {
  constexpr int64_t kLongest = 1 << 14;  // places have 16 bits; positions without a token use the upper half
  constexpr size_t kSharedBytes = 96 << 10;  // what a block may have since sm_80
  if (qkv.numel() == 0 || params.window > cuda::kMaxNeighbours || qkv.dim(1) > kLongest ||
      qkv.dim(2) > kLongest)
    return false;
  bool fits = false;
  auto measure = [&]<Mma kMma, int kD>() {
    const size_t heads =
        std::max(NeighbourTileHeads<Stored<kMma>, TileOf::kQueries>(qkv, table, mask, params).head_bytes(),
                 NeighbourTileHeads<Stored<kMma>, TileOf::kKeys>(qkv, table, mask, params).head_bytes());
    fits =
        std::max(cuda::BackwardShared<kMma, kD>::bytes(), cuda::forward_shared_bytes<kMma, kD>()) + heads <=
        kSharedBytes;
  };
  return cuda::dispatch_attention(qkv.dtype(), qkv.dim(3) / 3 / params.heads, measure) && fits;
}

SACCADE_REGISTER_TUNED_KERNEL(neighbourhood_attention_forward, Device::kCuda, &forward_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(neighbourhood_attention_backward, Device::kCuda, &backward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
