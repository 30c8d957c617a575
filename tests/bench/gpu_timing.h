// Times work on the GPU, for the benchmarks.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade {

// Waits for the GPU: a copy to the CPU does.
inline void synchronize() {
  static Tensor one = Tensor::zeros({1}, DType::kF32, Device::kCuda);
  one.to(Device::kCpu);
}

// Microseconds of a call of f: the median over rounds of `calls` calls, after one warm-up round.
template <class F>
double median_of(int rounds, int calls, const F& f) {
  std::vector<double> times;
  for (int i = 0; i < rounds + 1; ++i) {
    synchronize();
    auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < calls; ++k) f();
    synchronize();
    std::chrono::duration<double, std::micro> t = std::chrono::steady_clock::now() - start;
    if (i > 0) times.push_back(t.count() / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace saccade
