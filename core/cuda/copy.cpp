// Copies between the CPU's and the GPU's memory.
#include "core/kernels/copy.h"

#include "core/cuda/api.h"

namespace saccade::kernels {
namespace {

void between_devices(const Tensor& x, Tensor& y) {
  if (x.bytes() == 0) return;
  cudaMemcpyKind kind = x.device() == Device::kCpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  cuda::check(cudaMemcpyAsync(y.raw(), x.raw(), x.bytes(), kind, cuda::stream()),
              "a copy between CPU and GPU");
  cuda::synchronize();
}

[[maybe_unused]] const bool registered = [] {
  copy_between_devices.set_generic(Device::kCpu, &between_devices);
  copy_between_devices.set_generic(Device::kCuda, &between_devices);
  return true;
}();

}  // namespace
}  // namespace saccade::kernels
