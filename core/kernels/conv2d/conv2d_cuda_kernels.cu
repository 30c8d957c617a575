// The epilogue of convolutions without an engine for it, and the pixels of strided 1x1 ones: a thread moves
// 16 bytes of channels of the output tensor.
#include "core/kernels/conv2d/conv2d_cuda_kernels.h"

#include "core/runtime/cuda/block.h"
#include "core/runtime/kernel.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 256;

// Adds residual and bias, and applies ReLU.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    conv_bias_relu(int64_t packs, unsigned in_row, const float* bias, const T* residual, bool relu, T* y) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  auto first = static_cast<unsigned>(i % in_row) * V;
  Pack<T, V> value = load_pack<V>(y + i * V), more{};
  if (residual) more = load_pack<V>(residual + i * V);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    float v = static_cast<float>(value.x[j]);
    if (residual) v += static_cast<float>(more.x[j]);
    if (bias) v += bias[first + j];
    value.x[j] = static_cast<T>(relu && v < 0 ? 0.0f : v);
  }
  store_pack(y + i * V, value);
}

// A grid of pixels, with `packs` packs of channels per pixel.
struct Grid {
  int height, width, packs;
};

// to[n, h, w] = from[n, h * up / down, w * up / down] if that is a pixel of `from`, else 0; one of up and
// down is 1.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    move_pixels(const T* from, Grid source, T* to, Grid target, int64_t packs, int up, int down) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const auto pixel = static_cast<int>(i / target.packs), pack = static_cast<int>(i % target.packs);
  const int row = pixel / target.width, h = row % target.height * up, w = pixel % target.width * up;
  const int n = row / target.height;
  Pack<T, V> value{};
  if (h % down == 0 && w % down == 0) {
    const int64_t at = (static_cast<int64_t>(n) * source.height + h / down) * source.width + w / down;
    value = load_pack<V>(from + (at * source.packs + pack) * V);
  }
  store_pack<V>(to + i * V, value);
}

void move(const Tensor& from, Tensor& to, int64_t up, int64_t down) {
  dispatch_packs(to.dtype(), rows_fit_packs(to.dim(-1), to, from), [&]<class T, int V>() {
    auto grid = [](const Tensor& t) {
      return Grid{static_cast<int>(t.dim(1)), static_cast<int>(t.dim(2)), static_cast<int>(t.dim(3) / V)};
    };
    const int64_t packs = to.numel() / V;
    launch("move_pixels", &move_pixels<T, V>, {ceil_div(packs, kThreads), kThreads}, from.data<T>(),
           grid(from), to.data<T>(), grid(to), packs, static_cast<int>(up), static_cast<int>(down));
  });
}

}  // namespace

void conv_epilogue(const Tensor& bias, const Tensor& residual, Activation act, Tensor& y) {
  dispatch_packs(y.dtype(), rows_fit_packs(y.dim(-1), y, residual), [&]<class T, int V>() {
    int64_t packs = y.numel() / V;
    launch("conv_bias_relu", &conv_bias_relu<T, V>, {ceil_div(packs, kThreads), kThreads}, packs,
           static_cast<unsigned>(y.dim(-1) / V), data_or_null<float>(bias), data_or_null<T>(residual),
           act == Activation::kRelu, y.data<T>());
  });
}

void pick_pixels(const Tensor& x, int64_t stride, Tensor& y) { move(x, y, stride, 1); }
void spread_pixels(const Tensor& y, int64_t stride, Tensor& x) { move(y, x, 1, stride); }

}  // namespace saccade::cuda
