// Runs a named functor once per index: on CPU threads here, on the GPU when nvcc compiles the same source.
// The functor is a struct with `SACCADE_HD void operator()(int64_t i) const`, no two indices writing one
// place.
#pragma once

#include "core/kernel.h"
#include "core/parallel.h"

namespace saccade {

#ifndef __CUDACC__
// `cost` is a rough count of element operations per index; small jobs stay on the calling thread.
template <class Functor>
void for_each(int64_t n, const Functor& functor, int64_t cost = 1) {
  constexpr int64_t kWorthAThread = 16384;
  parallel_for(n, std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(cost, 1)),
               [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
                 for (int64_t i = begin; i < end; ++i) functor(i);
               });
}
#endif

}  // namespace saccade
