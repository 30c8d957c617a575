// for_each(n, functor, cost) runs a named functor once per index: on CPU threads, or on the GPU when the same
// source is compiled for it. The functor is a struct with `SACCADE_HD void operator()(int64_t i) const`; no
// two indices may write the same place. `cost` is a rough count of element operations per index.
// map_each(n, f, y, x...) computes y[i] = f(x[i]...) on contiguous arrays; y may be one of x... . f is a
// struct with `SACCADE_HD T operator()(X...) const`. On the GPU it moves 16 bytes at a time.
#pragma once

#include "core/runtime/kernel.h"
#include "core/tensor/hd.h"

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
#include "core/runtime/cuda/map.h"
#else

#include "core/runtime/parallel.h"

namespace saccade {
inline namespace SACCADE_SIDE {

// Small jobs stay on the calling thread.
template <class Functor>
void for_each(int64_t n, const Functor& functor, int64_t cost = 1) {
  constexpr int64_t kWorthAThread = 16384;
  parallel_for(n, std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(cost, 1)),
               [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
                 for (int64_t i = begin; i < end; ++i) functor(i);
               });
}

template <class F, class T, class... X>
void map_each(int64_t n, const F& f, T* y, const X*... x) {
  for_each(
      n, [=](int64_t i) { y[i] = f(x[i]...); }, 4);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade

#endif
