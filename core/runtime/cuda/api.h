// The CUDA runtime with error checks. Compiled by nvcc, or by g++ against the emulator in
// tests/cuda_emulator.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "core/tensor/error.h"

namespace saccade::cuda {

// Throws Error naming the call and CUDA's reason. It also clears CUDA's last error, so that a caller who
// catches the exception can continue and no later call finds the error again.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const std::string reason = cudaGetErrorString(status);
  (void)cudaGetLastError();
  fail("[cuda] {}: {}", call, reason);
}

// Returns cudaSuccess if the program contains code that the GPU can run, or else the reason.
cudaError_t find_kernel_code();

// With SACCADE_CUDA_SYNC=1 in the environment, every launch waits until its kernel is done, so that errors
// name the right kernel.
bool waits_for_launches();

// Counters for cuda_statistics().
inline std::atomic<int64_t> launches{0}, host_syncs{0}, uploaded_bytes{0};

// The stream of all our work. The first call sets up the GPU. Throws Error if no GPU can be used.
cudaStream_t stream();
// Replaces the stream by another one within the block, on this thread. Memory that is used elsewhere may not
// be allocated or freed there.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t other);
  ~StreamScope();
  StreamScope& operator=(StreamScope&&) = delete;

 private:
  cudaStream_t before_;
};
// Waits for all work so far. Throws Error if some of it failed.
void synchronize();

}  // namespace saccade::cuda
