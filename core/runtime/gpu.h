// Facts about the GPU of this process, besides cuda_problem() of core/tensor/device.h.
#pragma once

#include <cstdint>

#include "core/tensor/device.h"

namespace saccade {

// Returns whether Device::kCuda is the slow emulated GPU of the tests.
bool cuda_is_emulated();

// Returns whether this process has already used CUDA. The visible GPUs are fixed from then on, whatever
// CUDA_VISIBLE_DEVICES becomes.
bool cuda_is_running();
int gpu_count();  // number of GPUs that CUDA shows

// Makes our GPU the calling thread's current one within the block. The thread may belong to another program,
// with a current GPU of its own otherwise.
class CurrentGpu {
 public:
  explicit CurrentGpu(Device device);  // does nothing for the CPU
  ~CurrentGpu();
  CurrentGpu& operator=(CurrentGpu&&) = delete;

 private:
  int before_ = -1;
};

// Counts since the start of the program.
struct CudaStatistics {
  int64_t launches = 0;        // kernels, calls of cuBLASLt and cuDNN, copies
  int64_t host_syncs = 0;      // number of times the host waited for the GPU
  int64_t uploaded_bytes = 0;  // from the host to the GPU
};
CudaStatistics cuda_statistics();

}  // namespace saccade
