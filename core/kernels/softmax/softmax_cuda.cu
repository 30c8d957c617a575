// Softmax and its logarithm on the GPU for f32: 1 to 32 lanes of a warp share a row that fits their
// registers; a block takes a longer one. Loads and stores have 16 bytes if rows are aligned to that.
#include "core/kernels/softmax/softmax.h"

#include "core/runtime/cuda/block.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

using cuda::Pack;

constexpr int kThreads = 128;     // of a block with many rows
constexpr int kRowThreads = 256;  // of a block with one
constexpr int kMaxItems = 4;      // packs per lane
constexpr float kMinusInfinity = -__builtin_huge_valf();

__device__ __forceinline__ float larger(float a, float b) { return b > a ? b : a; }

// The maximum over `lanes` neighbouring lanes, a power of two; in each of them.
__device__ __forceinline__ float group_max(float value, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2)
    value = larger(value, __shfl_xor_sync(cuda::kAllLanes, value, step));
  return value;
}
__device__ __forceinline__ float group_sum(float value, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(cuda::kAllLanes, value, step);
  return value;
}

// A thread's place if lanes share a row: its packs begin at `first` + i * lanes * kPack for i < kItems.
template <int kPack, int kItems>
struct Lanes {
  int64_t row;
  int lanes, first, n;
  bool inside;

  __device__ Lanes(int64_t rows, int n_, int lanes_)
      : row((int64_t{blockIdx.x} * kThreads + threadIdx.x) / lanes_),
        lanes(lanes_),
        first(static_cast<int>(threadIdx.x) % lanes_ * kPack),
        n(n_),
        inside(row < rows) {}
  // Calls f(i, offset of pack i in the tensor) for the existing packs.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      int at = first + i * lanes * kPack;
      if (inside && at < n) f(i, row * n + at);
    }
  }
};

template <bool kLog, int kPack, int kItems>
__global__ void __launch_bounds__(kThreads)
    softmax_rows(const float* x, float* y, int64_t rows, int n, int lanes) {
  Lanes<kPack, kItems> place(rows, n, lanes);
  Pack<float, kPack> v[kItems];
  float top = kMinusInfinity, total = 0;
  place.each([&](int i, int64_t at) {
    v[i] = cuda::load_pack<kPack>(x + at);
    for (float value : v[i].x) top = larger(top, value);
  });
  top = group_max(top, lanes);
  place.each([&](int i, int64_t) {
    for (float& value : v[i].x) {
      value -= top;
      float e = math::exp(value);
      total += e;
      if constexpr (!kLog) value = e;
    }
  });
  total = group_sum(total, lanes);
  float scale = kLog ? math::log(total) : 1 / total;
  place.each([&](int i, int64_t at) {
    for (float& value : v[i].x) value = kLog ? value - scale : value * scale;
    cuda::store_pack(y + at, v[i]);
  });
}

template <bool kLog, int kPack, int kItems>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_rows(const float* y, const float* dy, float* dx, int64_t rows, int n, int lanes) {
  Lanes<kPack, kItems> place(rows, n, lanes);
  Pack<float, kPack> v[kItems], g[kItems];
  float total = 0;
  place.each([&](int i, int64_t at) {
    v[i] = cuda::load_pack<kPack>(y + at);
    g[i] = cuda::load_pack<kPack>(dy + at);
    for (int c = 0; c < kPack; ++c) total += kLog ? g[i].x[c] : v[i].x[c] * g[i].x[c];
  });
  total = group_sum(total, lanes);
  place.each([&](int i, int64_t at) {
    for (int c = 0; c < kPack; ++c) {
      float value = v[i].x[c];
      v[i].x[c] = kLog ? g[i].x[c] - math::exp(value) * total : value * (g[i].x[c] - total);
    }
    cuda::store_pack(dx + at, v[i]);
  });
}

// One row per block. The row is read twice; its sum is rescaled as the maximum grows.
template <bool kLog, int kPack>
__global__ void __launch_bounds__(kRowThreads) softmax_long_rows(const float* x, float* y, int64_t n) {
  SACCADE_SHARED(float, scratch, cuda::kWarp);
  SACCADE_SHARED(float, tops, kRowThreads / cuda::kWarp);
  const float* from = x + blockIdx.x * n;
  float* to = y + blockIdx.x * n;
  int64_t first = int64_t{threadIdx.x} * kPack;
  float own = kMinusInfinity, total = 0;
  for (int64_t i = first; i < n; i += kRowThreads * kPack) {
    auto v = cuda::load_pack<kPack>(from + i);
    float now = own;
    for (float value : v.x) now = larger(now, value);
    if (now > own) total *= math::exp(own - now);
    own = now;
    float shift = own == kMinusInfinity ? 0 : own;  // a row may begin with minus infinities
    for (float value : v.x) total += math::exp(value - shift);
  }
  float top = cuda::warp_max(own);
  if (threadIdx.x % cuda::kWarp == 0) tops[threadIdx.x / cuda::kWarp] = top;
  __syncthreads();
  for (int w = 0; w < kRowThreads / cuda::kWarp; ++w) top = larger(top, tops[w]);
  // If nothing was larger than minus infinity, the sum is 0 or NaN.
  total = cuda::block_sum(own == kMinusInfinity ? total : total * math::exp(own - top), scratch);
  float scale = kLog ? math::log(total) : 1 / total;
  for (int64_t i = first; i < n; i += kRowThreads * kPack) {
    auto v = cuda::load_pack<kPack>(from + i);
    for (float& value : v.x) value = kLog ? value - top - scale : math::exp(value - top) * scale;
    cuda::store_pack(to + i, v);
  }
}

template <bool kLog, int kPack>
__global__ void __launch_bounds__(kRowThreads)
    softmax_backward_long_rows(const float* y, const float* dy, float* dx, int64_t n) {
  SACCADE_SHARED(float, scratch, cuda::kWarp);
  int64_t row = blockIdx.x * n, first = row + int64_t{threadIdx.x} * kPack;
  float total = 0;
  for (int64_t i = first; i < row + n; i += kRowThreads * kPack) {
    auto v = cuda::load_pack<kPack>(y + i), g = cuda::load_pack<kPack>(dy + i);
    for (int c = 0; c < kPack; ++c) total += kLog ? g.x[c] : v.x[c] * g.x[c];
  }
  total = cuda::block_sum(total, scratch);
  for (int64_t i = first; i < row + n; i += kRowThreads * kPack) {
    auto v = cuda::load_pack<kPack>(y + i), g = cuda::load_pack<kPack>(dy + i);
    for (int c = 0; c < kPack; ++c)
      v.x[c] = kLog ? g.x[c] - math::exp(v.x[c]) * total : v.x[c] * (g.x[c] - total);
    cuda::store_pack(dx + i, v);
  }
}

// The distribution of rows of n elements, in packs, over threads. items 0: a block takes a row.
struct RowLayout {
  int items, lanes;
  int64_t blocks;

  RowLayout(int64_t rows, int64_t n, int pack) {
    int64_t packs = ceil_div(n, pack);
    items = packs <= cuda::kWarp ? 1 : packs <= cuda::kWarp * kMaxItems ? kMaxItems : 0;
    lanes = 1;
    while (items > 0 && lanes * items < packs) lanes *= 2;
    blocks = items > 0 ? ceil_div(rows * lanes, kThreads) : rows;
  }
};

// Calls f<kPack, kItems>(layout).
template <class F>
void dispatch_rows(const Tensor& shape, bool packs, const F& f) {
  int64_t n = shape.dim(-1), rows = shape.numel() / n;
  cuda::with_packs<4>(packs, [&]<int kPack>() {
    RowLayout layout(rows, n, kPack);
    if (layout.items == 0)
      f.template operator()<kPack, 0>(layout, rows, n);
    else if (layout.items == 1)
      f.template operator()<kPack, 1>(layout, rows, n);
    else
      f.template operator()<kPack, kMaxItems>(layout, rows, n);
  });
}

template <bool kLog>
void forward(const Tensor& x, Tensor& y) {
  const float* from = x.data<float>();
  float* to = y.data<float>();
  bool packs = cuda::rows_fit_packs(x.dim(-1), x, y);
  dispatch_rows(x, packs, [&]<int kPack, int kItems>(const RowLayout& layout, int64_t rows, int64_t n) {
    if constexpr (kItems == 0) {
      cuda::launch("softmax_long_rows", &softmax_long_rows<kLog, kPack>, {layout.blocks, kRowThreads}, from,
                   to, n);
    } else {
      cuda::launch("softmax_rows", &softmax_rows<kLog, kPack, kItems>, {layout.blocks, kThreads}, from, to,
                   rows, static_cast<int>(n), layout.lanes);
    }
  });
}

template <bool kLog>
void backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  const float *out = y.data<float>(), *gradient = dy.data<float>();
  float* to = dx.data<float>();
  bool packs = cuda::rows_fit_packs(y.dim(-1), y, dy, dx);
  dispatch_rows(y, packs, [&]<int kPack, int kItems>(const RowLayout& layout, int64_t rows, int64_t n) {
    if constexpr (kItems == 0) {
      cuda::launch("softmax_backward_long_rows", &softmax_backward_long_rows<kLog, kPack>,
                   {layout.blocks, kRowThreads}, out, gradient, to, n);
    } else {
      cuda::launch("softmax_backward_rows", &softmax_backward_rows<kLog, kPack, kItems>,
                   {layout.blocks, kThreads}, out, gradient, to, rows, static_cast<int>(n), layout.lanes);
    }
  });
}

template <class... A>
bool supported(const Tensor& x, const A&...) {
  return x.dtype() == DType::kF32 && x.numel() > 0;
}

SACCADE_REGISTER_TUNED_KERNEL(softmax, Device::kCuda, &forward<false>, &supported);
SACCADE_REGISTER_TUNED_KERNEL(softmax_backward, Device::kCuda, &backward<false>, &supported);
SACCADE_REGISTER_TUNED_KERNEL(log_softmax, Device::kCuda, &forward<true>, &supported);
SACCADE_REGISTER_TUNED_KERNEL(log_softmax_backward, Device::kCuda, &backward<true>, &supported);

}  // namespace
}  // namespace saccade::kernels
