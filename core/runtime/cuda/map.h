// map_each of core/runtime/launch.h on the GPU: one pack per thread.
#pragma once

#include <initializer_list>

#include "core/runtime/cuda/block.h"

namespace saccade {
inline namespace SACCADE_SIDE {

constexpr int kMapThreads = 256;

template <int kPack, class F, class T, class... X>
__global__ void __launch_bounds__(kMapThreads) map_packs(int64_t n, F f, T* y, const X*... x) {
  using namespace cuda;
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kPack;
  if (i + kPack <= n) {
    auto out = [&](const Pack<X, kPack>&... in) {
      Pack<T, kPack> all;
      for (int j = 0; j < kPack; ++j) all.x[j] = f(in.x[j]...);
      return all;
    }(load_pack<kPack>(x + i)...);
    store_pack<kPack>(y + i, out);
  } else {
    for (; i < n; ++i) y[i] = f(x[i]...);
  }
}

// The number of elements in the widest access that the widest of the types allows.
template <class... T>
inline constexpr int kCommonPack = static_cast<int>(16 / std::max({sizeof(T)...}));

// Calls f<Unit>() with the widest of 16, 4, 2 and 1 bytes that divides all the byte counts and addresses.
template <class F>
void with_unit(std::initializer_list<uintptr_t> values, const F& f) {
  uintptr_t bits = 0;
  for (uintptr_t v : values) bits |= v;
  if (bits % 16 == 0) return f.template operator()<cuda::Pack<uint32_t, 4>>();
  if (bits % 4 == 0) return f.template operator()<uint32_t>();
  if (bits % 2 == 0) return f.template operator()<uint16_t>();
  f.template operator()<uint8_t>();
}

template <class F, class T, class... X>
void map_each(int64_t n, const F& f, T* y, const X*... x) {
  using namespace cuda;
  if (n <= 0) return;
  constexpr int kPack = kCommonPack<T, X...>;
  // The last, shorter pack is processed element by element, so only the addresses matter.
  const bool packs = (packs_fit<kPack>(y, 0) && ... && packs_fit<kPack>(x, 0));
  with_packs<kPack>(packs, [&]<int kWidth>() {
    launch("map_packs", &map_packs<kWidth, F, T, X...>,
           {ceil_div(ceil_div(n, kWidth), kMapThreads), kMapThreads}, n, f, y, x...);
  });
}

}  // namespace SACCADE_SIDE
}  // namespace saccade
