// What the program says about its GPU, besides cuda_problem() of core/tensor/device.h.
#pragma once

#include <cstdint>

#include "core/tensor/device.h"

namespace saccade {

// Whether Device::kCuda is the slow emulated GPU of the tests.
bool cuda_is_emulated();

// Whether this process has used CUDA already: which GPUs it shows is settled then, whatever
// CUDA_VISIBLE_DEVICES becomes.
bool cuda_is_running();
int gpu_count();  // that CUDA shows

// Within the block our GPU is the current one of the calling thread,
// which may be another program's and has its own one otherwise.
class CurrentGpu {
 public:
  explicit CurrentGpu(Device device);  // nothing for the CPU
  ~CurrentGpu();
  CurrentGpu& operator=(CurrentGpu&&) = delete;

 private:
  int before_ = -1;
};

// Counted since the start of the program.
struct CudaStatistics {
  int64_t launches = 0;        // kernels, calls of cuBLASLt and cuDNN, copies
  int64_t host_syncs = 0;      // how often the host waited for the GPU
  int64_t uploaded_bytes = 0;  // from the host to the GPU
};
CudaStatistics cuda_statistics();

}  // namespace saccade
