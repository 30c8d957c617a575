// Dropout: a thread draws its pack's bits with one or two calls of Philox. Drop path: a pack of a sample.
#include "core/kernels/random/random.h"

#include "core/kernels/copy/copy.h"
#include "core/kernels/random/dropout_cuda.h"
#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads)
    dropout_packs(const T* __restrict__ x, T* __restrict__ y, int64_t n, RoundKeys keys, uint64_t call,
                  uint64_t first, uint32_t kept, float scale) {
  int64_t pack = static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x, i = pack * kPack;
  if (i >= n) return;
  // Only the last pack of the tensor can be cut, by n.
  bool whole = i + kPack <= n;
  float v[kPack];
  if (whole) {
    load_floats<kPack>(x + i, v);
  } else {
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[j] = i + j < n ? static_cast<float>(x[i + j]) : 0.0f;
  }
  Pack<T, kPack> out;
#pragma unroll
  for (int g = 0; g < kPack; g += 4) {
    Philox bits = keys.generate(call, first / 4 + static_cast<uint64_t>(pack * (kPack / 4) + g / 4));
#pragma unroll
    for (int j = 0; j < 4; ++j) out.x[g + j] = T(bits.x[j] >= kept ? v[g + j] * scale : 0.0f);
  }
  if (whole) {
    store_pack<kPack>(y + i, out);
  } else {
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (i + j < n) y[i + j] = out.x[j];
  }
}

template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads)
    drop_path_packs(const T* x, T* y, int64_t size, unsigned blocks, uint64_t key, uint64_t call,
                    uint64_t first, float p, float scale) {
  unsigned sample = blockIdx.x / blocks;
  int64_t i = (static_cast<int64_t>(blockIdx.x % blocks) * kMapThreads + threadIdx.x) * kPack;
  if (i >= size) return;
  const uint64_t drawn = first + sample;
  uint32_t bits = Philox::generate(key, call, drawn / 4).x[drawn % 4];
  float factor = uniform_from_bits(bits) < p ? 0 : scale;
  Pack<T, kPack> out{};  // a dropped sample is not read
  if (factor != 0) {
    float v[kPack];
    load_floats<kPack>(x + sample * size + i, v);
#pragma unroll
    for (int j = 0; j < kPack; ++j) out.x[j] = T(v[j] * factor);
  }
  store_whole<kPack>(y + sample * size + i, out);
}

void dropout_cuda(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first, Tensor& y) {
  if (static_cast<float>(p) >= 1) return fill(y, 0);
  dispatch_dtype<float, bf16>(x.dtype(), "dropout", [&]<class T>() {
    constexpr int kPack = kPackWidth<T>;
    launch("dropout_packs", &dropout_packs<T, kPack>,
           {ceil_div(ceil_div(x.numel(), kPack), kMapThreads), kMapThreads}, x.data<T>(), y.data<T>(),
           x.numel(), RoundKeys(key), call, first, first_kept(static_cast<float>(p)), keep_scale(p));
  });
}
bool dropout_supported(const Tensor& x, const double&, const uint64_t&, const uint64_t&, const uint64_t&,
                       const Tensor& y) {
  return takes_f32_or_bf16(x) && rows_fit_packs(0, x, y);
}

void drop_path_cuda(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first, Tensor& y) {
  int64_t size = x.numel() / x.dim(0);
  dispatch_packs(x.dtype(), rows_fit_packs(size, x, y), [&]<class T, int kPack>() {
    int64_t blocks = ceil_div(size / kPack, kMapThreads);
    launch("drop_path_packs", &drop_path_packs<T, kPack>, {blocks * x.dim(0), kMapThreads}, x.data<T>(),
           y.data<T>(), size, static_cast<unsigned>(blocks), key, call, first, static_cast<float>(p),
           keep_scale(p));
  });
}

SACCADE_REGISTER_TUNED_KERNEL(dropout, Device::kCuda, &dropout_cuda, &dropout_supported);
SACCADE_REGISTER_TUNED_KERNEL(drop_path, Device::kCuda, &drop_path_cuda, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
