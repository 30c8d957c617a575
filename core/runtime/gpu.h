// What the program says about its GPU, besides cuda_problem() of core/tensor/device.h.
#pragma once

#include <cstdint>

namespace saccade {

// Whether Device::kCuda is the slow emulated GPU of the tests.
bool cuda_is_emulated();

// Counted since the start of the program.
struct CudaStatistics {
  int64_t launches = 0;        // kernels, calls of cuBLASLt and cuDNN, copies
  int64_t host_syncs = 0;      // how often the host waited for the GPU
  int64_t uploaded_bytes = 0;  // from the host to the GPU
};
CudaStatistics cuda_statistics();

}  // namespace saccade
