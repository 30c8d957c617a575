// The part of the CUDA runtime that the kernels and core/cuda use, on the emulated GPU. Found before the
// toolkit's header of the same name if SACCADE_EMULATOR is defined; g++ compiles the same sources against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/mma.h"

#define CUDART_VERSION 13000

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define threadIdx (::saccade::emulator::position().thread)
#define blockIdx (::saccade::emulator::position().block)
#define blockDim (::saccade::emulator::position().block_size)
#define gridDim (::saccade::emulator::position().grid_size)

// ---- barriers, shuffles, votes
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ::saccade::emulator::block_barrier(file, line);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  ::saccade::emulator::warp_barrier(mask, file, line);
}

inline void __threadfence() { ::saccade::emulator::fence(); }

namespace saccade::emulator {

template <class T>
T exchange_value(unsigned mask, T value, int lane, const char* file, int line) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, lane, file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace saccade::emulator

// `width` lanes form a group; lanes whose source is outside it keep their own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  int lane = static_cast<int>(::saccade::emulator::lane_of_thread()), base = lane / width * width;
  return ::saccade::emulator::exchange_value(mask, value, base + source % width, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  int lane = static_cast<int>(::saccade::emulator::lane_of_thread()), source = lane ^ bits;
  return ::saccade::emulator::exchange_value(mask, value, source / width == lane / width ? source : lane,
                                             file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  int lane = static_cast<int>(::saccade::emulator::lane_of_thread()), source = lane + static_cast<int>(delta);
  return ::saccade::emulator::exchange_value(mask, value, source / width == lane / width ? source : lane,
                                             file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  int lane = static_cast<int>(::saccade::emulator::lane_of_thread()), source = lane - static_cast<int>(delta);
  bool inside = source >= lane / width * width;
  return ::saccade::emulator::exchange_value(mask, value, inside ? source : lane, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int value, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return ::saccade::emulator::ballot(mask, value != 0, file, line);
}
inline int __any_sync(unsigned mask, int value, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return ::saccade::emulator::ballot(mask, value != 0, file, line) != 0;
}
inline int __all_sync(unsigned mask, int value, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return ::saccade::emulator::ballot(mask, value != 0, file, line) == mask;
}
// The lanes of the mask that gave the same value.
template <class T>
unsigned __match_any_sync(unsigned mask, T value, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= 8 && std::is_integral_v<T>);
  return ::saccade::emulator::match(mask, static_cast<uint64_t>(value), file, line);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }

// ---- atomics: threads run one at a time, so plain operations are atomic; the hooks must not see their parts
#define SACCADE_ONE_STEP __attribute__((no_sanitize("thread")))
template <class T>
SACCADE_ONE_STEP T atomicAdd(T* p, T value) {
  ::saccade::emulator::check_access(p, sizeof(T), ::saccade::emulator::Access::kAtomic);
  T old = *p;
  *p = old + value;
  return old;
}
template <class T>
SACCADE_ONE_STEP T atomicMax(T* p, T value) {
  ::saccade::emulator::check_access(p, sizeof(T), ::saccade::emulator::Access::kAtomic);
  T old = *p;
  *p = old < value ? value : old;
  return old;
}

// ---- the runtime's host side
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaDataType_t : int { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };

using cudaStream_t = ::saccade::emulator::Stream*;
using cudaEvent_t = ::saccade::emulator::Event*;

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
};

inline const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    default:
      break;
  }
  static std::string text;
  text = "the emulator reports: " + ::saccade::emulator::fault();
  return text.c_str();
}
inline cudaError_t emulated_status() {
  return ::saccade::emulator::fault().empty() ? cudaSuccess : cudaErrorLaunchFailure;
}
// Returns the status of a failed call, and leaves it for cudaGetLastError().
inline cudaError_t emulated_failure(cudaError_t status) {
  ::saccade::emulator::leave_error(status);
  return status;
}
inline cudaError_t cudaPeekAtLastError() {
  const cudaError_t status = emulated_status();
  return status == cudaSuccess ? static_cast<cudaError_t>(::saccade::emulator::last_error()) : status;
}
inline cudaError_t cudaGetLastError() {
  const cudaError_t status = cudaPeekAtLastError();
  ::saccade::emulator::leave_error(cudaSuccess);
  return status;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = ::saccade::emulator::planned_fault() == "no_gpu"
               ? 0
               : static_cast<int>(::saccade::emulator::visible_gpus().size());
  const bool none = *count == 0;
  return none ? emulated_failure(cudaErrorNoDevice) : cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  bool old = ::saccade::emulator::planned_fault() == "old_gpu";
  *properties = {"emulated GPU", old ? 7 : 9, old ? 5 : 0, 2, ::saccade::emulator::total_bytes()};
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  const std::string& fault = ::saccade::emulator::planned_fault();
  *version = fault == "no_driver" ? 0 : fault == "old_driver" ? 12040 : 13000;
  return cudaSuccess;
}
enum cudaDeviceAttr { cudaDevAttrMemoryPoolsSupported = 115 };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = ::saccade::emulator::planned_fault() != "no_pools";
  return cudaSuccess;
}
struct cudaFuncAttributes {};
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) {
  return ::saccade::emulator::planned_fault() == "no_kernel_image"
             ? emulated_failure(cudaErrorNoKernelImageForDevice)
             : cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* name, int bytes, int device) {
  const std::vector<int> gpus = ::saccade::emulator::visible_gpus();
  if (device < 0 || static_cast<size_t>(device) >= gpus.size() || bytes < 13)
    return emulated_failure(cudaErrorInvalidValue);
  const std::string bus = "0000:0" + std::to_string(gpus[static_cast<size_t>(device)] % 10) + ":00.0";
  std::memcpy(name, bus.c_str(), bus.size() + 1);
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || static_cast<size_t>(device) >= ::saccade::emulator::visible_gpus().size())
    return emulated_failure(cudaErrorInvalidDevice);
  ::saccade::emulator::set_current_device(device);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = ::saccade::emulator::current_device();
  return cudaSuccess;
}
constexpr unsigned cudaStreamNonBlocking = 1;
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = &::saccade::emulator::new_stream();
  return cudaSuccess;
}
inline ::saccade::emulator::Stream& emulated_stream(cudaStream_t stream) {
  return stream ? *stream : ::saccade::emulator::default_stream();
}
// Returns false, with a report, while the stream is captured.
inline bool emulated_call(cudaStream_t stream, const char* call) {
  return ::saccade::emulator::may_call(emulated_stream(stream), call);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!emulated_call(stream, "cudaStreamSynchronize"))
    return emulated_failure(cudaErrorStreamCaptureUnsupported);
  ::saccade::emulator::synchronize(emulated_stream(stream), emulated_stream(stream).issued);
  return emulated_status();
}
constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new ::saccade::emulator::Event;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!emulated_call(stream, "cudaEventRecord")) return emulated_failure(cudaErrorStreamCaptureUnsupported);
  ::saccade::emulator::record(*event, emulated_stream(stream));
  return emulated_status();
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  return ::saccade::emulator::happened(*event) ? emulated_status() : emulated_failure(cudaErrorNotReady);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream) ::saccade::emulator::synchronize(*event->stream, event->position);
  return emulated_status();
}
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!::saccade::emulator::happened(*begin) || !::saccade::emulator::happened(*end))
    return emulated_failure(cudaErrorNotReady);
  *ms = static_cast<float>(end->ms - begin->ms);
  return emulated_status();
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!emulated_call(stream, "cudaStreamWaitEvent"))
    return emulated_failure(cudaErrorStreamCaptureUnsupported);
  return ::saccade::emulator::wait(emulated_stream(stream), *event) ? emulated_status()
                                                                    : cudaErrorLaunchFailure;
}
inline cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  *p = ::saccade::emulator::allocate_pinned(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* p) {
  return ::saccade::emulator::free_pinned(p) ? cudaSuccess : emulated_failure(cudaErrorInvalidValue);
}
inline cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = ::saccade::emulator::is_to_fail("cudaMalloc") ? nullptr : ::saccade::emulator::allocate(bytes);
  return *p ? emulated_status() : emulated_failure(cudaErrorMemoryAllocation);
}
inline cudaError_t cudaFree(void* p) {
  return ::saccade::emulator::deallocate(p) ? cudaSuccess : emulated_failure(cudaErrorInvalidValue);
}
inline cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) {
  if (!emulated_call(stream, "cudaMallocAsync")) return emulated_failure(cudaErrorStreamCaptureUnsupported);
  *p = ::saccade::emulator::allocate_on(emulated_stream(stream), bytes);
  return *p ? emulated_status() : emulated_failure(cudaErrorMemoryAllocation);
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  if (!emulated_call(stream, "cudaFreeAsync")) return emulated_failure(cudaErrorStreamCaptureUnsupported);
  return ::saccade::emulator::free_on(emulated_stream(stream), p) ? cudaSuccess
                                                                  : emulated_failure(cudaErrorInvalidValue);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  auto& s = emulated_stream(stream);
  if (kind != cudaMemcpyDeviceToDevice && !emulated_call(stream, "cudaMemcpyAsync"))
    return emulated_failure(cudaErrorStreamCaptureUnsupported);
  ::saccade::emulator::issue(
      s, [=, &s] { ::saccade::emulator::copy_async(to, from, bytes, s); }, &::saccade::emulator::may_issue);
  return emulated_status();
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  auto& s = emulated_stream(stream);
  ::saccade::emulator::issue(
      s,
      [=, &s] {
        if (::saccade::emulator::order_kernel(s, &to, sizeof to)) ::saccade::emulator::set(to, value, bytes);
      },
      &::saccade::emulator::may_issue);
  return emulated_status();
}

using cudaGraph_t = ::saccade::emulator::Graph*;
using cudaGraphExec_t = ::saccade::emulator::Graph*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return ::saccade::emulator::begin_capture(emulated_stream(stream)) ? cudaSuccess
                                                                     : cudaErrorStreamCaptureUnsupported;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = ::saccade::emulator::end_capture(emulated_stream(stream));
  if (::saccade::emulator::is_to_fail("cudaStreamEndCapture")) {
    delete *graph;
    *graph = nullptr;
    return emulated_failure(cudaErrorStreamCaptureInvalidated);
  }
  return emulated_status();
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0) {
  if (::saccade::emulator::is_to_fail("cudaGraphInstantiate"))
    return emulated_failure(cudaErrorMemoryAllocation);
  *exec = new ::saccade::emulator::Graph(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return ::saccade::emulator::launch_graph(*exec, emulated_stream(stream)) ? cudaSuccess
                                                                           : cudaErrorLaunchFailure;
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = ::saccade::emulator::free_bytes();
  *total = ::saccade::emulator::total_bytes();
  return cudaSuccess;
}

using cudaMemPool_t = struct EmulatedPool*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent };
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  *static_cast<uint64_t*>(value) = ::saccade::emulator::total_bytes() - ::saccade::emulator::free_bytes();
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
