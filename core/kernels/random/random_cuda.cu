// Dropout: a thread draws the bits of its pack, one or two calls of Philox; drop path: a pack of a sample.
#include "core/kernels/random/random.h"

#include "core/runtime/cuda/map.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads)
    dropout_packs(const T* x, T* y, int64_t n, uint64_t key, uint64_t call, float p, float scale) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kPack;
  if (i >= n) return;
  float factor[kPack];
  for (int g = 0; g < kPack; g += 4) {
    Philox bits = Philox::generate(key, call, static_cast<uint64_t>(i + g) / 4);
    for (int j = 0; j < 4; ++j) factor[g + j] = uniform_from_bits(bits.x[j]) < p ? 0 : scale;
  }
  auto drop = [&](T v, float f) { return T(f == 0 ? 0.0f : static_cast<float>(v) * f); };
  if (i + kPack <= n) {
    auto a = load_pack<kPack>(x + i);
    for (int j = 0; j < kPack; ++j) a.x[j] = drop(a.x[j], factor[j]);
    store_pack<kPack>(y + i, a);
  } else {
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (i + j < n) y[i + j] = drop(x[i + j], factor[j]);
  }
}

template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads)
    drop_path_packs(const T* x, T* y, int64_t size, unsigned blocks, uint64_t key, uint64_t call, float p,
                    float scale) {
  unsigned sample = blockIdx.x / blocks;
  int64_t i = (static_cast<int64_t>(blockIdx.x % blocks) * kMapThreads + threadIdx.x) * kPack;
  if (i >= size) return;
  uint32_t bits = Philox::generate(key, call, sample / 4).x[sample % 4];
  float factor = uniform_from_bits(bits) < p ? 0 : scale;
  auto a = load_pack<kPack>(x + sample * size + i);
  for (int j = 0; j < kPack; ++j) a.x[j] = T(factor == 0 ? 0.0f : static_cast<float>(a.x[j]) * factor);
  store_pack<kPack>(y + sample * size + i, a);
}

float keep_scale(double p) { return p < 1 ? static_cast<float>(1 / (1 - p)) : 0; }

void dropout_cuda(const Tensor& x, double p, uint64_t key, uint64_t call, Tensor& y) {
  // At p = 1 the scale is 0 and so is every factor.
  dispatch_dtype<float, bf16>(x.dtype(), "dropout", [&]<class T>() {
    constexpr int kPack = kPackWidth<T>;
    launch("dropout_packs", &dropout_packs<T, kPack>, grid_of(ceil_div(x.numel(), kPack), kMapThreads),
           dim3(kMapThreads), 0, x.data<T>(), y.data<T>(), x.numel(), key, call, static_cast<float>(p),
           keep_scale(p));
  });
}
bool dropout_supported(const Tensor& x, const double&, const uint64_t&, const uint64_t&, const Tensor& y) {
  return takes_f32_or_bf16(x) && rows_fit_packs(0, x, y);
}

void drop_path_cuda(const Tensor& x, double p, uint64_t key, uint64_t call, Tensor& y) {
  int64_t size = x.numel() / x.dim(0);
  dispatch_packs(x.dtype(), rows_fit_packs(size, x, y), [&]<class T, int kPack>() {
    int64_t blocks = ceil_div(size / kPack, kMapThreads);
    launch("drop_path_packs", &drop_path_packs<T, kPack>, dim3(static_cast<unsigned>(blocks * x.dim(0))),
           dim3(kMapThreads), 0, x.data<T>(), y.data<T>(), size, static_cast<unsigned>(blocks), key, call,
           static_cast<float>(p), keep_scale(p));
  });
}

SACCADE_REGISTER_TUNED_KERNEL(dropout, Device::kCuda, &dropout_cuda, &dropout_supported);
SACCADE_REGISTER_TUNED_KERNEL(drop_path, Device::kCuda, &drop_path_cuda, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
