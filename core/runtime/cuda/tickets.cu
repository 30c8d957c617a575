#include "core/runtime/cuda/tickets.h"

namespace saccade::cuda {

// Never freed: the driver may be gone before static objects are.
unsigned* tickets() {
  static unsigned* const all = [] {
    void* p = nullptr;
    constexpr size_t kBytes = kTickets * sizeof(unsigned);
    check(cudaMallocAsync(&p, kBytes, stream()), "cudaMallocAsync");
    check(cudaMemsetAsync(p, 0, kBytes, stream()), "cudaMemsetAsync");
    return static_cast<unsigned*>(p);
  }();
  return all;
}

}  // namespace saccade::cuda
