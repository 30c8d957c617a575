// Sampled position bias in f32. Every pair of a query and a key needs one position for all heads of its
// group.
//   * Forward: a thread has a pair and writes the group's heads; neighbours have neighbouring keys.
//   * Gradients of queries: a warp has a query and a group, its lanes the keys. Of keys: a lane has a key,
//     and the eight warps of a block share a run of the queries; there are several runs if the keys make few
//     blocks. All end in sums of a fixed order.
//   * Gradient of the table: a block has a head of an image, a range of pairs and as many cells as fit into
//     shared memory, and adds there with integer atomics, whose order does not matter. A contribution becomes
//     an integer multiple of 2^-38 of the largest |dbias| of the pairs (rounded up to a power of two), in two
//     halves of 19 bits: 2048 pairs, each of which touches a cell once, can overflow neither. Then the halves
//     are added to 64-bit sums. If a dbias is not finite, the block's cells become NaN.
#include "core/kernels/sampled_position_bias/sampled_position_bias.h"

#include "core/kernels/common/samples_cuda.h"
#include "core/kernels/reduce/reduce.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kPeriod = 2048;  // pairs before the halves are added to the sums
constexpr int kHalfBits = 19;
constexpr int kMaxCells = (48 << 10) / 16 - 32;  // cells of a block in shared memory, 16 bytes each

struct Bias {
  const float *table, *query, *key;
  int N, H, Th, Tw, Q, G, S, query_n;

  __device__ __forceinline__ int heads() const { return H / G; }  // per group
  __device__ __forceinline__ int cells() const { return Th * Tw; }
  __device__ __forceinline__ float scale_x() const { return static_cast<float>(Tw - 1) * 0.5f; }
  __device__ __forceinline__ float scale_y() const { return static_cast<float>(Th - 1) * 0.5f; }
  __device__ __forceinline__ SamplePoint point(int n, int g, int q, int s) const {
    auto a = load_pack<2>(query + ((query_n == 1 ? 0 : static_cast<int64_t>(n)) * Q + q) * 2);
    auto b = load_pack<2>(key + ((static_cast<int64_t>(n) * G + g) * S + s) * 2);
    return SamplePoint::at(((a.x[0] - b.x[0]) * 0.5f + 1) * scale_x(),
                           ((a.x[1] - b.x[1]) * 0.5f + 1) * scale_y(), Th, Tw);
  }
  // The index of pair 0 of a head of an image.
  __device__ __forceinline__ int64_t pairs(int n, int h) const {
    return (static_cast<int64_t>(n) * H + h) * Q * S;
  }
  // The corners' cells in the table, -1 outside.
  __device__ __forceinline__ void corners(const SamplePoint& p, int (&cell)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) cell[c] = p.cell(c, Th, Tw);
  }
  // Adds the derivatives with respect to the position of a pair, over the group's heads.
  __device__ __forceinline__ void add_slopes(const float* dbias, int n, int g, int q, int s, float& dx,
                                             float& dy) const {
    SamplePoint p = point(n, g, q, s);
    int cell[4];
    corners(p, cell);
    float dot[4] = {};
    for (int h = g * heads(); h < (g + 1) * heads(); ++h) {
      float d = dbias[pairs(n, h) + static_cast<int64_t>(q) * S + s];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (cell[c] >= 0) dot[c] += d * table[static_cast<int64_t>(h) * cells() + cell[c]];
    }
    dx += p.slope_x(dot);
    dy += p.slope_y(dot);
  }
};

// Grid: (pairs, groups of images).
__global__ void __launch_bounds__(kThreads) sample_bias(Bias b, float* __restrict__ bias) {
  int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= b.Q * b.S) return;
  int n = static_cast<int>(blockIdx.y) / b.G, g = static_cast<int>(blockIdx.y) % b.G;
  SamplePoint p = b.point(n, g, i / b.S, i % b.S);
  int cell[4];
  b.corners(p, cell);
  for (int h = g * b.heads(); h < (g + 1) * b.heads(); ++h) {
    const float* table = b.table + static_cast<int64_t>(h) * b.cells();
    float sum = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (cell[c] >= 0) sum += p.weight(c) * table[cell[c]];
    bias[b.pairs(n, h) + i] = sum;
  }
}

// parts [N, G, Q, 2]. Grid: (queries, groups of images).
__global__ void __launch_bounds__(kThreads)
    query_gradients(Bias b, const float* __restrict__ dbias, float* parts) {
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int q = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (q >= b.Q) return;
  int n = static_cast<int>(blockIdx.y) / b.G, g = static_cast<int>(blockIdx.y) % b.G;
  float dx = 0, dy = 0;
  for (int s = lane; s < b.S; s += kWarp) b.add_slopes(dbias, n, g, q, s, dx, dy);
  dx = warp_sum(dx);
  dy = warp_sum(dy);
  if (lane == 0)
    store_pack<2>(parts + (static_cast<int64_t>(blockIdx.y) * b.Q + q) * 2,
                  {dx * b.scale_x() * 0.5f, dy * b.scale_y() * 0.5f});
}

// parts [runs, N, G, S, 2]. Grid: (keys, groups of images, runs of `run` queries).
__global__ void __launch_bounds__(kThreads)
    key_gradients(Bias b, int run, const float* __restrict__ dbias, float* parts) {
  SACCADE_SHARED(float, sums, kThreads * 2);
  int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int s = static_cast<int>(blockIdx.x) * kWarp + lane;
  int n = static_cast<int>(blockIdx.y) / b.G, g = static_cast<int>(blockIdx.y) % b.G;
  float dx = 0, dy = 0;
  int begin = static_cast<int>(blockIdx.z) * run, end = b.Q - begin < run ? b.Q : begin + run;
  for (int q = begin + warp; q < end && s < b.S; q += kWarps) b.add_slopes(dbias, n, g, q, s, dx, dy);
  sums[threadIdx.x * 2] = dx;
  sums[threadIdx.x * 2 + 1] = dy;
  __syncthreads();
  if (warp > 0 || s >= b.S) return;
  for (int w = 1; w < kWarps; ++w) {
    dx += sums[(w * kWarp + lane) * 2];
    dy += sums[(w * kWarp + lane) * 2 + 1];
  }
  store_pack<2>(parts + ((static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * b.S + s) * 2,
                {-dx * b.scale_x() * 0.5f, -dy * b.scale_y() * 0.5f});
}

// parts [N, chunks, H, cells]. Grid: (chunks of pairs, heads of images, ranges of cells); 16 bytes of shared
// memory per cell of a range.
__global__ void __launch_bounds__(kThreads)
    table_gradients(Bias b, int chunk, int range, const float* __restrict__ dbias, float* parts) {
  SACCADE_DYNAMIC_SHARED(int64_t, sums);
  SACCADE_SHARED(unsigned, largest, 1);
  int first_cell = static_cast<int>(blockIdx.z) * range, tid = static_cast<int>(threadIdx.x);
  int cells = b.cells() - first_cell < range ? b.cells() - first_cell : range;
  int* low = reinterpret_cast<int*>(sums + cells);
  int* high = low + cells;
  int n = static_cast<int>(blockIdx.y) / b.H, h = static_cast<int>(blockIdx.y) % b.H, g = h / b.heads();
  const float* d = dbias + b.pairs(n, h);
  int begin = static_cast<int>(blockIdx.x) * chunk,
      end = b.Q * b.S - begin < chunk ? b.Q * b.S : begin + chunk;
  for (int c = tid; c < cells; c += kThreads) {
    sums[c] = 0;
    low[c] = high[c] = 0;
  }
  if (tid == 0) largest[0] = 0;
  __syncthreads();
  unsigned most = 0;  // bits of |d| are ordered like |d|; infinities and NaN come last
  for (int i = begin + tid; i < end; i += kThreads) {
    unsigned bits = std::bit_cast<unsigned>(d[i]) & 0x7FFFFFFFu;
    if (bits > most) most = bits;
  }
  atomicMax(largest, most);
  __syncthreads();
  most = largest[0];
  // |d| < 2^(exponent - 126), so |d| * 2^shift < 2^(2 * kHalfBits).
  int shift = 2 * kHalfBits + 126 - static_cast<int>(most >> 23);
  if (shift > 126) shift = 126;
  float up = std::ldexp(1.0f, shift);
  bool finite = most < 0x7F800000u;
  for (int first = begin; first < end && finite; first += kPeriod) {
    for (int i = first + tid; i < end && i < first + kPeriod; i += kThreads) {
      SamplePoint p = b.point(n, g, i / b.S, i % b.S);
      const int row = p.y0 * b.Tw - first_cell;
      if (row >= cells || row + 2 * b.Tw <= 0) continue;  // both rows of cells belong to other blocks
      int cell[4];
      b.corners(p, cell);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int at = cell[c] - first_cell;
        if (cell[c] < 0 || at < 0 || at >= cells) continue;
        auto whole = static_cast<int64_t>(std::llrint(p.weight(c) * d[i] * up));
        atomicAdd(low + at, static_cast<int>(whole & ((1 << kHalfBits) - 1)));
        atomicAdd(high + at, static_cast<int>(whole >> kHalfBits));
      }
    }
    __syncthreads();
    for (int c = tid; c < cells; c += kThreads) {
      sums[c] += static_cast<int64_t>(high[c]) * (1 << kHalfBits) + low[c];
      low[c] = high[c] = 0;
    }
    __syncthreads();
  }
  float* out =
      parts + ((static_cast<int64_t>(n) * gridDim.x + blockIdx.x) * b.H + h) * b.cells() + first_cell;
  double down = std::ldexp(1.0, -shift);
  for (int c = tid; c < cells; c += kThreads)
    out[c] = finite ? static_cast<float>(static_cast<double>(sums[c]) * down) : NAN;
}

// bias: the forward's result or its gradient.
template <class... A>
bool supported(const Tensor& table, const Tensor& query, const Tensor& key, const Tensor& bias, const A&...) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  return table.dtype() == DType::kF32 && bias.numel() > 0 && packs_fit<2>(query.data<float>(), 0) &&
         packs_fit<2>(key.data<float>(), 0) && query.dim(1) * key.dim(2) < kLimit &&
         key.dim(0) * table.dim(0) < 65536 && table.dim(1) * table.dim(2) < kLimit;
}

Bias problem(const Tensor& table, const Tensor& query, const Tensor& key) {
  auto size = [](int64_t n) { return static_cast<int>(n); };
  return {table.data<float>(), query.data<float>(), key.data<float>(),  size(key.dim(0)),
          size(table.dim(0)),  size(table.dim(1)),  size(table.dim(2)), size(query.dim(1)),
          size(key.dim(1)),    size(key.dim(2)),    size(query.dim(0))};
}

void forward_cuda(const Tensor& table, const Tensor& query, const Tensor& key, Tensor& bias) {
  Bias b = problem(table, query, key);
  launch("sample_bias", &sample_bias, {{ceil_div(int64_t{b.Q} * b.S, kThreads), b.N * b.G}, kThreads}, b,
         bias.data<float>());
}

void backward_cuda(const Tensor& table, const Tensor& query, const Tensor& key, const Tensor& dbias,
                   Tensor& dtable, Tensor& dquery, Tensor& dkey) {
  Bias b = problem(table, query, key);
  const float* d = dbias.data<float>();
  const int64_t groups = int64_t{b.N} * b.G;
  auto scratch = [](const Shape& shape) { return Tensor::empty(shape, DType::kF32, Device::kCuda); };
  if (dkey.defined()) {
    // Enough blocks for a large GPU, with several queries per warp.
    constexpr int64_t kBlocks = 1024, kMinQueries = 8 * kWarps;
    const int64_t blocks = ceil_div(b.S, kWarp);
    const int64_t most = std::clamp<int64_t>(kBlocks / (blocks * groups), 1, ceil_div(b.Q, kMinQueries));
    auto run = static_cast<int>(ceil_div(b.Q, most));
    const int64_t runs = ceil_div(b.Q, run);
    Tensor parts = runs > 1 ? scratch({runs, b.N, b.G, b.S, 2}) : dkey;
    launch("key_gradients", &key_gradients, {{blocks, groups, runs}, kThreads}, b, run, d,
           parts.data<float>());
    Tensor sum = dkey.reshape({1, b.N, b.G, b.S, 2});
    if (runs > 1) sum_to_shape(parts, 1, sum);
  }
  if (dquery.defined()) {
    Tensor parts = scratch({b.N, b.G, b.Q, 2});
    launch("query_gradients", &query_gradients, {{ceil_div(b.Q, kWarps), groups}, kThreads}, b, d,
           parts.data<float>());
    Tensor sum = dquery.reshape({b.query_n, 1, b.Q, 2});
    sum_to_shape(parts.reshape({b.query_n, b.N / b.query_n * b.G, b.Q, 2}), 1, sum);
  }
  if (dtable.defined()) {
    // Enough blocks for a large GPU; a block's table costs as much as some thousand pairs.
    constexpr int kBlocks = 1024, kMinPairs = 4 * kPeriod;
    const int64_t pairs = int64_t{b.Q} * b.S, heads = int64_t{b.N} * b.H;
    const int cells = b.Th * b.Tw;
    const int64_t ranges = ceil_div(cells, kMaxCells);
    int range = std::min(cells, kMaxCells);
    int chunk = std::max<int>(kMinPairs, static_cast<int>(ceil_div(pairs * heads * ranges, kBlocks)));
    const int64_t chunks = ceil_div(pairs, chunk);
    Tensor parts = scratch({b.N, chunks, b.H, cells});
    launch("table_gradients", &table_gradients,
           {{chunks, heads, ranges}, kThreads, static_cast<size_t>(range) * 16}, b, chunk, range, d,
           parts.data<float>());
    sum_to_shape(parts.reshape({b.N * chunks, b.H, b.Th, b.Tw}), 1, dtable);
  }
}

SACCADE_REGISTER_TUNED_KERNEL(sampled_position_bias_forward, Device::kCuda, &forward_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(sampled_position_bias_backward, Device::kCuda, &backward_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
