// The CUDA runtime with its errors checked. Compiled by nvcc, or by g++ against the emulator of
// tests/cuda_emulator.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "core/tensor/error.h"

namespace saccade::cuda {

// Throws Error naming the call and CUDA's reason. Whoever catches it continues: the error is told, and no
// later call, of ours or of a library that asks for the last error, may find it again.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const std::string reason = cudaGetErrorString(status);
  (void)cudaGetLastError();
  fail("[cuda] {}: {}", call, reason);
}

// Whether the program holds code that the GPU can run: cudaSuccess, or why not.
cudaError_t find_kernel_code();

// SACCADE_CUDA_SYNC=1 in the environment: every launch waits until its kernel is done,
// so that errors have the right name.
bool waits_for_launches();

// For cuda_statistics().
inline std::atomic<int64_t> launches{0}, host_syncs{0}, uploaded_bytes{0};

// The stream of all our work; sets the GPU up at the first call. Throws Error when there is none that can be
// used.
cudaStream_t stream();
// Within the block another stream replaces it, on this thread. Nothing may be allocated or freed there
// that is used elsewhere.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t other);
  ~StreamScope();
  StreamScope& operator=(StreamScope&&) = delete;

 private:
  cudaStream_t before_;
};
// Waits for all work so far. Throws Error when some of it failed.
void synchronize();

}  // namespace saccade::cuda
