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
  int64_t n = x.numel();
  auto typed = [&]<class T>() {
    constexpr int kPack = kPackWidth<T>;
    if (!packs_fit<kPack>(x.data<T>(), 0) || !packs_fit<kPack>(y.data<T>(), 0))
      return dropout.generic(x, p, key, call, y);
    launch("dropout_packs", &dropout_packs<T, kPack>,
           dim3(static_cast<unsigned>(ceil_div(ceil_div(n, kPack), kMapThreads))), dim3(kMapThreads), 0,
           x.data<T>(), y.data<T>(), n, key, call, static_cast<float>(p), keep_scale(p));
  };
  // At p = 1 the scale is 0 and so is every factor.
  if (n == 0 || x.dtype() == DType::kF64) return dropout.generic(x, p, key, call, y);
  x.dtype() == DType::kF32 ? typed.operator()<float>() : typed.operator()<bf16>();
}

void drop_path_cuda(const Tensor& x, double p, uint64_t key, uint64_t call, Tensor& y) {
  if (x.numel() == 0 || x.dtype() == DType::kF64) return drop_path.generic(x, p, key, call, y);
  int64_t size = x.numel() / x.dim(0);
  auto run = [&]<class T, int kPack>() {
    int64_t blocks = ceil_div(size / kPack, kMapThreads);
    launch("drop_path_packs", &drop_path_packs<T, kPack>, dim3(static_cast<unsigned>(blocks * x.dim(0))),
           dim3(kMapThreads), 0, x.data<T>(), y.data<T>(), size, static_cast<unsigned>(blocks), key, call,
           static_cast<float>(p), keep_scale(p));
  };
  auto typed = [&]<class T>() {
    constexpr int kPack = kPackWidth<T>;
    if (packs_fit<kPack>(x.data<T>(), size) && packs_fit<kPack>(y.data<T>(), size))
      run.template operator()<T, kPack>();
    else
      run.template operator()<T, 1>();
  };
  x.dtype() == DType::kF32 ? typed.operator()<float>() : typed.operator()<bf16>();
}

SACCADE_REGISTER_TUNED_KERNEL(dropout, Device::kCuda, &dropout_cuda);
SACCADE_REGISTER_TUNED_KERNEL(drop_path, Device::kCuda, &drop_path_cuda);

}  // namespace
}  // namespace saccade::kernels
