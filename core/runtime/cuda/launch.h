// How kernels are started: cuda::launch starts those that use blocks and warps, for_each runs functors of one
// index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>

#include "core/runtime/cuda/api.h"
#include "core/tensor/integers.h"

// An array in a block's shared memory, and the shared memory whose size the launch sets.
#ifdef SACCADE_EMULATOR
#define SACCADE_SHARED(T, name, count) \
  static const char name##_key = 0;    \
  T* name = static_cast<T*>(::saccade::emulator::shared_array(&name##_key, sizeof(T) * (count)))
#define SACCADE_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::saccade::emulator::dynamic_shared())
#else
#define SACCADE_SHARED(T, name, count) __shared__ __align__(16) T name[count]
#define SACCADE_DYNAMIC_SHARED(T, name)                                 \
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
  T* name = reinterpret_cast<T*>(dynamic_shared_bytes)
#endif

namespace saccade::cuda {

// The name of a kernel in messages and in the list of those that ran: that of its __global__ function or, for
// a functor, the place where for_each was called.
struct KernelName {
  const char* text;
  int line = 0;
  KernelName(const char* name, int at_line = 0) : text(name), line(at_line) {}
  std::string full() const { return line > 0 ? fmt::format("{}:{}", text, line) : text; }
};

#ifndef SACCADE_EMULATOR
// More than 48 KB of dynamic shared memory must be requested, once per kernel (and again for more).
inline cudaError_t ask_for_shared(const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::map<const void*, size_t> granted;
  std::lock_guard lock(mutex);
  size_t& most = granted[kernel];
  if (bytes <= most) return cudaSuccess;
  cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status == cudaSuccess) most = bytes;
  return status;
}
#endif

struct LaunchExtent : dim3 {
  LaunchExtent(int64_t nx, int64_t ny = 1, int64_t nz = 1)
      : dim3(static_cast<unsigned>(nx), static_cast<unsigned>(ny), static_cast<unsigned>(nz)) {}
};
struct LaunchSize {
  LaunchExtent grid, block;  // blocks, and the threads of one
  size_t shared_bytes = 0;   // dynamic memory of a block, besides its arrays
};

// Runs kernel(arguments...) on our stream.
template <class... P, class... A>
void launch(KernelName name, void (*kernel)(P...), const LaunchSize& size, A&&... arguments) {
  // Newer drivers allow more, but not every driver that runs this program.
  static_assert((sizeof(std::decay_t<P>) + ... + 0) <= 4096, "arguments of a kernel are at most 4 KiB");
  std::tuple<std::decay_t<P>...> values{std::forward<A>(arguments)...};
#ifdef SACCADE_EMULATOR
  emulator::issue(*stream(), [=] {
    // Pointers inside functors are found too, in the bytes of the arguments.
    if (emulator::order_kernel(*stream(), &values, sizeof values))
      emulator::launch(name.full(), {size.grid.x, size.grid.y, size.grid.z},
                       {size.block.x, size.block.y, size.block.z}, size.shared_bytes,
                       [&] { std::apply(kernel, values); });
  });
  cudaError_t status = cudaGetLastError();
#else
  cudaError_t status = std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)..., nullptr};
        constexpr size_t kDefaultSharedBytes = 48 << 10;
        if (size.shared_bytes > kDefaultSharedBytes) {
          cudaError_t asked = ask_for_shared(reinterpret_cast<const void*>(kernel), size.shared_bytes);
          if (asked != cudaSuccess) return asked;
        }
        return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), size.grid, size.block, pointers,
                                size.shared_bytes, stream());
      },
      values);
#endif
  ++launches;
  if (status == cudaSuccess && waits_for_launches()) status = cudaStreamSynchronize(stream());
  if (status != cudaSuccess) check(status, name.full().c_str());
}

}  // namespace saccade::cuda

namespace saccade {
inline namespace SACCADE_SIDE {

constexpr int kForEachThreads = 128;

template <class Functor>
__global__ void __launch_bounds__(kForEachThreads) for_each_kernel(int64_t n, Functor functor) {
  int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) functor(i);
}

// See core/runtime/launch.h. The kernel is named after the place of the call.
template <class Functor>
void for_each(int64_t n, const Functor& functor, int64_t = 1, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  if (n <= 0) return;
  constexpr int64_t kMaxBlocks = 1 << 16;
  const int64_t blocks = std::min(ceil_div(n, kForEachThreads), kMaxBlocks);
  cuda::launch({file, line}, &for_each_kernel<Functor>, {blocks, kForEachThreads}, n, functor);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade
