// Replaces core/runtime/cuda in a build without CUDA. SACCADE_NO_CUDA gives the reason
// (scripts/cmake/find_cuda.cmake).
#include "core/runtime/gpu.h"
#include "core/runtime/recording.h"
#include "core/tensor/device.h"

namespace saccade {

const std::string& cuda_problem() {
  static const std::string problem = "this program was built without CUDA (" SACCADE_NO_CUDA ")";
  return problem;
}

bool cuda_is_emulated() { return false; }

bool cuda_is_running() { return false; }
int gpu_count() { return 0; }
CurrentGpu::CurrentGpu(Device) {}
CurrentGpu::~CurrentGpu() {}

CudaStatistics cuda_statistics() { return {}; }

std::unique_ptr<RecordedWork> record_work(Device, const std::function<void()>&) { return nullptr; }

}  // namespace saccade
