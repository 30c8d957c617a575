#include "core/runtime/cuda/launch.h"

namespace saccade::cuda {
namespace {

struct Nothing {
  __device__ void operator()(int64_t) const {}
};

}  // namespace

// Every kernel is compiled for the same architectures, so checking one suffices.
cudaError_t find_kernel_code() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&for_each_kernel<Nothing>));
}

}  // namespace saccade::cuda
