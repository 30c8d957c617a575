// map_strided of core/kernels/common/map_strided.h on the GPU: one pack of the innermost axis per thread if
// every tensor is contiguous along it or broadcast, otherwise one element.
#pragma once

#include "core/kernels/common/strided.h"
#include "core/runtime/cuda/map.h"

namespace saccade::cuda {

// Loads kPack elements from p on, or repeats the one at p kPack times.
template <int kPack, class T>
__device__ __forceinline__ Pack<T, kPack> load_or_repeat(const T* p, bool repeat) {
  if (!repeat) return load_pack<kPack>(p);
  Pack<T, kPack> all;
  T one = *p;
  for (int j = 0; j < kPack; ++j) all.x[j] = one;
  return all;
}

// `loop` counts packs along its last axis; tensor 0 is y.
template <int kPack, class F, class T, class... X>
__global__ void __launch_bounds__(kMapThreads)
    map_strided_packs(kernels::StridedLoop<1 + sizeof...(X)> loop, uint32_t count, F f, T* y, const X*... x) {
  constexpr int kTensors = 1 + sizeof...(X);
  uint32_t rest = blockIdx.x * kMapThreads + threadIdx.x;
  if (rest >= count) return;
  int64_t at[kTensors] = {};
  for (int a = loop.rank - 1; a >= 0; --a) {
    uint32_t index = rest;
    if (a > 0) {
      uint32_t size = static_cast<uint32_t>(loop.sizes[a]);
      rest /= size;
      index -= rest * size;
    }
#pragma unroll
    for (int t = 0; t < kTensors; ++t) at[t] += static_cast<int64_t>(index) * loop.strides[t][a];
  }
  int t = 0;
  [[maybe_unused]] auto load = [&]<class V>(const V* p) {
    ++t;
    return load_or_repeat<kPack>(p + at[t], loop.step(t) == 0);
  };
  std::tuple<Pack<X, kPack>...> in{load(x)...};  // in this order
  Pack<T, kPack> out;
  for (int j = 0; j < kPack; ++j) out.x[j] = std::apply([&](const auto&... p) { return f(p.x[j]...); }, in);
  store_pack<kPack>(y + at[0], out);
}

}  // namespace saccade::cuda

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

template <class F, class T, class... X>
void map_strided(StridedLoop<1 + sizeof...(X)> loop, const F& f, T* y, const X*... x) {
  using namespace cuda;
  constexpr int kTensors = 1 + sizeof...(X), kPack = kCommonPack<T, X...>;
  int last = loop.rank - 1;
  if (loop.rows() * loop.inner() > UINT32_MAX - kMapThreads) {  // the kernel counts in 32 bits
    int64_t size = loop.sizes[0], half = size / 2;
    auto part = [&](int64_t begin, int64_t end) {
      loop.sizes[0] = end - begin;
      [[maybe_unused]] int t = 0;
      [[maybe_unused]] auto from = [&](const auto* p) { return p + begin * loop.strides[++t][0]; };
      std::tuple<const X*...> parts{from(x)...};  // in this order
      std::apply([&](auto*... p) { map_strided(loop, f, y + begin * loop.strides[0][0], p...); }, parts);
    };
    part(0, half);
    return part(half, size);
  }
  bool packs = loop.step(0) == 1 && loop.inner() % kPack == 0 && packs_fit<kPack>(y, 0);
  [[maybe_unused]] int t = 0;
  [[maybe_unused]] auto fits = [&](const auto* p) {
    ++t;
    return loop.step(t) == 0 || (loop.step(t) == 1 && packs_fit<kPack>(p, 0));
  };
  packs = (packs && ... && fits(x));
  for (int i = 0; i < kTensors; ++i)
    for (int a = 0; a < last; ++a) packs = packs && (loop.step(i) == 0 || loop.strides[i][a] % kPack == 0);
  with_packs<kPack>(packs, [&]<int kWidth>() {
    loop.sizes[last] /= kWidth;
    for (int i = 0; i < kTensors; ++i) loop.strides[i][last] *= kWidth;
    int64_t count = loop.rows() * loop.inner();
    launch("map_strided_packs", &map_strided_packs<kWidth, F, T, X...>,
           {ceil_div(count, kMapThreads), kMapThreads}, loop, static_cast<uint32_t>(count), f, y, x...);
  });
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
