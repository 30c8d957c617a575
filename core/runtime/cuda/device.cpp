// Finds the GPU at run time and owns the stream.
#include "core/tensor/device.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/runtime/cuda/api.h"
#include "core/runtime/cuda/libraries/cublaslt.h"
#include "core/runtime/cuda/libraries/cudnn.h"
#include "core/runtime/cuda/recording.h"
#include "core/runtime/gpu.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

// The oldest driver that runs binaries of this toolkit's major release.
constexpr int kOldestDriver = CUDART_VERSION / 1000 * 1000;
constexpr int kOldestArchitecture = 80;
#ifdef SACCADE_EMULATOR
constexpr const char* kArchitectures = "the emulator";
#else
constexpr const char* kArchitectures = SACCADE_CUDA_ARCHITECTURES;
#endif

std::string version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

std::string find_problem() {
  // This must precede the driver's start, so that the driver also waits for the kernels of libraries.
  if (cuda::waits_for_launches()) ::setenv("CUDA_LAUNCH_BLOCKING", "1", 0);
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is installed";
  if (driver < kOldestDriver)
    return fmt::format("the NVIDIA driver supports CUDA {}, this program needs {} or newer", version(driver),
                       version(kOldestDriver));
  if (cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0)
    return fmt::format("no NVIDIA GPU can be used ({})", cudaGetErrorString(status));
  const CurrentGpu ours(Device::kCuda);  // for the calls below and the handles of libraries
  cudaDeviceProp properties;
  if (cudaError_t status = cudaGetDeviceProperties(&properties, 0); status != cudaSuccess)
    return fmt::format("the properties of the NVIDIA GPU cannot be read ({})", cudaGetErrorString(status));
  if (properties.major * 10 + properties.minor < kOldestArchitecture)
    return fmt::format("{} has compute capability {}.{}, this program needs {}.{} or newer", properties.name,
                       properties.major, properties.minor, kOldestArchitecture / 10,
                       kOldestArchitecture % 10);
  if (int pools = 0;
      cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0) != cudaSuccess || pools == 0)
    return fmt::format("{} does not support memory pools (cudaMallocAsync) here, which this program needs",
                       properties.name);
  if (cudaError_t status = cuda::find_kernel_code(); status == cudaErrorNoKernelImageForDevice)
    return fmt::format("{} has compute capability {}.{}, this program only has code for {}", properties.name,
                       properties.major, properties.minor, kArchitectures);
  else if (status != cudaSuccess)
    return fmt::format("{} cannot load this program's code ({})", properties.name,
                       cudaGetErrorString(status));
  try {
    cuda::load_cublaslt();
    cuda::cudnn();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

const std::string& cuda_problem() {
  static const std::string problem = find_problem();
  return problem;
}

bool cuda_is_emulated() {
#ifdef SACCADE_EMULATOR
  return true;
#else
  return false;
#endif
}

// A process that uses CUDA has loaded the driver's library, which answers once somebody has started it; this
// query starts nothing.
bool cuda_is_running() {
#ifdef SACCADE_EMULATOR
  return emulator::planned_fault() == "used_before";
#else
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return false;
  auto* count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int gpus = 0;
  const bool running = count && count(&gpus) == 0;
  ::dlclose(driver);
  return running;
#endif
}

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

CurrentGpu::CurrentGpu(Device device) {
  if (device != Device::kCuda) return;
  int now = 0;
  cuda::check(cudaGetDevice(&now), "cudaGetDevice");
  if (now == 0) return;
  cuda::check(cudaSetDevice(0), "cudaSetDevice");
  before_ = now;
}
// Fails only if the driver is gone, at the end of the program.
CurrentGpu::~CurrentGpu() {
  if (before_ > 0) (void)cudaSetDevice(before_);
}

CudaStatistics cuda_statistics() { return {cuda::launches, cuda::host_syncs, cuda::uploaded_bytes}; }

namespace cuda {

bool waits_for_launches() {
  static const bool waits = [] {
    const char* text = std::getenv("SACCADE_CUDA_SYNC");
    return text && *text && std::string_view(text) != "0";
  }();
  return waits;
}

namespace {
thread_local cudaStream_t scope_stream = nullptr;
}
StreamScope::StreamScope(cudaStream_t other) : before_(std::exchange(scope_stream, other)) {}
StreamScope::~StreamScope() { scope_stream = before_; }

cudaStream_t stream() {
  if (scope_stream) return scope_stream;
  forbid_beside_recording();
  static cudaStream_t stream = [] {
    if (!cuda_problem().empty()) fail("[cuda] {}", cuda_problem());
    check(cudaSetDevice(0), "cudaSetDevice");
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
    return s;
  }();
  return stream;
}

void synchronize() {
  forbid_in_recording("waiting for the GPU");
  ++host_syncs;
  check(cudaStreamSynchronize(stream()), "a kernel or copy");
}

}  // namespace cuda
}  // namespace saccade
