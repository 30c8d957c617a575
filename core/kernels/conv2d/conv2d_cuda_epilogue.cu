// Residual, bias and ReLU after a convolution that has no engine with them:
// a thread takes 16 bytes of channels.
#include "core/kernels/conv2d/conv2d_cuda_kernels.h"

#include "core/runtime/cuda/block.h"
#include "core/runtime/kernel.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 256;

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

}  // namespace

void conv_epilogue(const Tensor& bias, const Tensor& residual, Activation act, Tensor& y) {
  dispatch_packs(y.dtype(), rows_fit_packs(y.dim(-1), y, residual), [&]<class T, int V>() {
    int64_t packs = y.numel() / V;
    launch("conv_bias_relu", &conv_bias_relu<T, V>, grid_of(packs, kThreads), dim3(kThreads), 0, packs,
           static_cast<unsigned>(y.dim(-1) / V), data_or_null<float>(bias), data_or_null<T>(residual),
           act == Activation::kRelu, y.data<T>());
  });
}

}  // namespace saccade::cuda
