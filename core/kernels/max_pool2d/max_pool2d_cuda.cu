// Max pooling: a thread owns a pack of 16 bytes of channels of one output (forward) or input (backward), so
// neighbouring threads read neighbouring addresses. Indices are 32-bit.
#include "core/kernels/max_pool2d/max_pool2d.h"

#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

using cuda::Pack;

constexpr int kThreads = 256;

struct Sizes {
  int H, W, OH, OW, kernel, stride, padding;
  unsigned packs;  // packs per pixel
};

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool2d_forward_packs(Sizes z, unsigned count, const T* x, T* y, uint8_t* index) {
  unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  unsigned pixel = i / z.packs, row = pixel / static_cast<unsigned>(z.OW);
  int ow = static_cast<int>(pixel % static_cast<unsigned>(z.OW)),
      oh = static_cast<int>(row % static_cast<unsigned>(z.OH));
  int64_t C = static_cast<int64_t>(z.packs) * V, c = static_cast<int64_t>(i % z.packs) * V;
  const T* image = x + static_cast<int64_t>(row / static_cast<unsigned>(z.OH)) * z.H * z.W * C + c;
  float best[V] = {};
  int at[V] = {};
  bool started = false;
  for (int r = 0; r < z.kernel; ++r) {
    int h = oh * z.stride - z.padding + r;
    if (h < 0 || h >= z.H) continue;
    for (int s = 0; s < z.kernel; ++s) {
      int v = ow * z.stride - z.padding + s;
      if (v < 0 || v >= z.W) continue;
      Pack<T, V> value = cuda::load_pack<V>(image + (static_cast<int64_t>(h) * z.W + v) * C);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        auto a = static_cast<float>(value.x[j]);
        bool wins = !started || (!(a <= best[j]) && best[j] == best[j]);  // true also if a is NaN
        best[j] = wins ? a : best[j];
        at[j] = wins ? r * z.kernel + s : at[j];
      }
      started = true;
    }
  }
  Pack<T, V> out;
  Pack<uint8_t, V> places;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    out.x[j] = static_cast<T>(best[j]);
    places.x[j] = static_cast<uint8_t>(at[j]);
  }
  cuda::store_pack(y + static_cast<int64_t>(i) * V, out);
  if (index) cuda::store_pack(index + static_cast<int64_t>(i) * V, places);
}

// Every input sums the gradients of the windows that it won, in the order of the windows.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool2d_backward_packs(Sizes z, unsigned count, const T* dy, const uint8_t* index, T* dx) {
  unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  unsigned pixel = i / z.packs, row = pixel / static_cast<unsigned>(z.W);
  int v = static_cast<int>(pixel % static_cast<unsigned>(z.W)) + z.padding;
  int h = static_cast<int>(row % static_cast<unsigned>(z.H)) + z.padding;
  int64_t C = static_cast<int64_t>(z.packs) * V;
  int64_t image = static_cast<int64_t>(row / static_cast<unsigned>(z.H)) * z.OH * z.OW * C +
                  static_cast<int64_t>(i % z.packs) * V;
  float sum[V] = {};
  for (int oh = h < z.kernel ? 0 : (h - z.kernel) / z.stride + 1; oh < z.OH && oh * z.stride <= h; ++oh) {
    for (int ow = v < z.kernel ? 0 : (v - z.kernel) / z.stride + 1; ow < z.OW && ow * z.stride <= v; ++ow) {
      int mine = (h - oh * z.stride) * z.kernel + v - ow * z.stride;
      int64_t o = image + (static_cast<int64_t>(oh) * z.OW + ow) * C;
      Pack<uint8_t, V> places = cuda::load_pack<V>(index + o);
      Pack<T, V> d = cuda::load_pack<V>(dy + o);
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] += places.x[j] == mine ? static_cast<float>(d.x[j]) : 0.0f;
    }
  }
  Pack<T, V> out;
#pragma unroll
  for (int j = 0; j < V; ++j) out.x[j] = static_cast<T>(sum[j]);
  cuda::store_pack(dx + static_cast<int64_t>(i) * V, out);
}

Sizes sizes(const Tensor& large, const Tensor& small, const PoolParams& p, int pack) {
  return {static_cast<int>(large.dim(1)), static_cast<int>(large.dim(2)),
          static_cast<int>(small.dim(1)), static_cast<int>(small.dim(2)),
          static_cast<int>(p.kernel),     static_cast<int>(p.stride),
          static_cast<int>(p.padding),    static_cast<unsigned>(large.dim(3) / pack)};
}

void forward_cuda(const Tensor& x, const PoolParams& p, Tensor& y, Tensor& index) {
  cuda::dispatch_packs(x.dtype(), cuda::rows_fit_packs(x.dim(3), x, y), [&]<class T, int V>() {
    auto count = static_cast<unsigned>(y.numel() / V);
    cuda::launch("max_pool2d_forward_packs", &max_pool2d_forward_packs<T, V>,
                 {ceil_div(count, kThreads), kThreads}, sizes(x, y, p, V), count, x.data<T>(), y.data<T>(),
                 data_or_null<uint8_t>(index));
  });
}

void backward_cuda(const Tensor& dy, const Tensor& index, const PoolParams& p, Tensor& dx) {
  cuda::dispatch_packs(dx.dtype(), cuda::rows_fit_packs(dx.dim(3), dx, dy), [&]<class T, int V>() {
    auto count = static_cast<unsigned>(dx.numel() / V);
    cuda::launch("max_pool2d_backward_packs", &max_pool2d_backward_packs<T, V>,
                 {ceil_div(count, kThreads), kThreads}, sizes(dx, dy, p, V), count, dy.data<T>(),
                 index.data<uint8_t>(), dx.data<T>());
  });
}

SACCADE_REGISTER_TUNED_KERNEL(max_pool2d_forward, Device::kCuda, &forward_cuda, &takes_small_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(max_pool2d_backward, Device::kCuda, &backward_cuda, &takes_small_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
