// Lets the last block of a kernel finish the work of all blocks. It sums their results from memory in a fixed
// order, so the result does not depend on which block is last.
#pragma once

#include "core/runtime/cuda/launch.h"

namespace saccade::cuda {

// Counters that are zero between kernels.
constexpr int64_t kTickets = 1024;
// Never freed: the driver may be gone before static objects are destroyed.
inline unsigned* tickets() {
  static unsigned* const all = [] {
    void* p = nullptr;
    constexpr size_t kBytes = kTickets * sizeof(unsigned);
    check(cudaMallocAsync(&p, kBytes, stream()), "cudaMallocAsync");
    check(cudaMemsetAsync(p, 0, kBytes, stream()), "cudaMemsetAsync");
    return static_cast<unsigned*>(p);
  }();
  return all;
}

// Returns true, in all threads, in the last of `count` blocks that call it with this counter. These threads
// then see everything that the other blocks wrote before. The counter is reset to zero.
__device__ inline bool is_last_block(unsigned* ticket, unsigned count) {
  SACCADE_SHARED(unsigned, before, 1);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    before[0] = atomicAdd(ticket, 1u);
    __threadfence();
    if (before[0] == count - 1) *ticket = 0;
  }
  __syncthreads();
  return before[0] == count - 1;
}

}  // namespace saccade::cuda
