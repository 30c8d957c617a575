// Building blocks of the tuned kernels: loads and stores of 16 bytes, and sums over the threads of a warp or
// a block. Every order of summation is fixed by the shapes, so results are reproducible to the bit.
#pragma once

#include <bit>
#include <type_traits>

#include "core/runtime/cuda/launch.h"
#include "core/tensor/dtype.h"
#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"

namespace saccade::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Elements that move in one access if the address is a multiple of their size.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T x[kCount];
};
// The number of elements of T in 16 bytes, the widest access.
template <class T>
inline constexpr int kPackWidth = static_cast<int>(16 / sizeof(T));

// Checks the alignment of a pack. A GPU aborts a kernel that misaligns one; the emulator reports it.
template <int kCount, class T>
__device__ __forceinline__ void check_pack([[maybe_unused]] const T* p) {
#ifdef SACCADE_EMULATOR
  emulator::check_alignment(p, sizeof(T) * kCount);
#endif
}
template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> load_pack(const T* p) {
  check_pack<kCount>(p);
  return *reinterpret_cast<const Pack<T, kCount>*>(p);
}
template <int kCount, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, kCount>& value) {
  check_pack<kCount>(p);
  *reinterpret_cast<Pack<T, kCount>*>(p) = value;
}
// Loads kPack elements as floats. bf16 are loaded as 32-bit words, from which one instruction extracts each.
template <int kPack, class T>
__device__ __forceinline__ void load_floats(const T* p, float (&v)[kPack]) {
  if constexpr (std::is_same_v<T, bf16> && kPack % 2 == 0) {
    check_pack<kPack>(p);
    auto words = *reinterpret_cast<const Pack<uint32_t, kPack / 2>*>(p);
#pragma unroll
    for (int i = 0; i < kPack; i += 2) {
      v[i] = std::bit_cast<float>(words.x[i / 2] << 16);
      v[i + 1] = std::bit_cast<float>(words.x[i / 2] & 0xFFFF0000u);
    }
  } else {
    auto pack = load_pack<kPack>(p);
#pragma unroll
    for (int i = 0; i < kPack; ++i) v[i] = static_cast<float>(pack.x[i]);
  }
}
// Loads kCount floats, four at a time.
template <int kCount>
__device__ __forceinline__ Pack<float, kCount> load_wide(const float* p) {
  constexpr int kStep = kCount < 4 ? kCount : 4;
  Pack<float, kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; i += kStep) {
    auto part = load_pack<kStep>(p + i);
#pragma unroll
    for (int j = 0; j < kStep; ++j) out.x[i + j] = part.x[j];
  }
  return out;
}
template <int kCount>
__device__ __forceinline__ void store_wide(float* p, const Pack<float, kCount>& value) {
  constexpr int kStep = kCount < 4 ? kCount : 4;
#pragma unroll
  for (int i = 0; i < kCount; i += kStep) {
    Pack<float, kStep> part;
#pragma unroll
    for (int j = 0; j < kStep; ++j) part.x[j] = value.x[i + j];
    store_whole<kStep>(p + i, part);
  }
}
// Keeps an address in global memory in its registers; compilers tend to recompute it for every access.
template <class T>
__device__ __forceinline__ T* keep_address(T* p) {
#ifdef __CUDA_ARCH__
  asm("" : "+l"(p));
  __builtin_assume(__isGlobal(p));
#endif
  return p;
}

// Stores a pack whose elements come from a loop or a branch, which compilers tend to store one by one.
template <int kCount, class T>
__device__ __forceinline__ void store_whole(T* p, const Pack<T, kCount>& value) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof value == 16) {
    __stcg(reinterpret_cast<uint4*>(p), std::bit_cast<uint4>(value));
    return;
  }
#endif
  store_pack(p, value);
}

// Returns whether rows of `columns` elements that start at p can be read in packs of kCount.
template <int kCount, class T>
bool packs_fit(const T* p, int64_t columns) {
  return columns % kCount == 0 && reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kCount) == 0;
}

// Returns whether packs of 16 bytes of x, and packs of as many elements of the others, can be moved along
// rows of `columns` elements. Undefined tensors are ignored.
template <class... Tensors>
bool rows_fit_packs(int64_t columns, const Tensor& x, const Tensors&... others) {
  const uintptr_t count = 16 / size_of(x.dtype());
  auto fits = [&](const Tensor& t) {
    return !t.defined() || reinterpret_cast<uintptr_t>(t.raw()) % (count * size_of(t.dtype())) == 0;
  };
  return columns % static_cast<int64_t>(count) == 0 && fits(x) && (fits(others) && ...);
}
// Calls f<kPack>() if `packs`, or else f<1>().
template <int kPack, class F>
void with_packs(bool packs, const F& f) {
  packs ? f.template operator()<kPack>() : f.template operator()<1>();
}
// Calls f<T, kPack>(): T is f32 or bf16; kPack is the number of elements in 16 bytes if `packs`, or else 1.
template <class F>
void dispatch_packs(DType dtype, bool packs, const F& f) {
  dispatch_dtype<float, bf16>(dtype, "pack", [&]<class T>() {
    packs ? f.template operator()<T, kPackWidth<T>>() : f.template operator()<T, 1>();
  });
}

// The sum of `value` over groups of kWidth neighbouring lanes (a power of two), in every lane of the group.
template <int kWidth = kWarp, class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int step = kWidth / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step, kWidth);
  return value;
}
template <int kWidth = kWarp, class T>
__device__ __forceinline__ T warp_max(T value) {
  for (int step = kWidth / 2; step > 0; step /= 2) {
    T other = __shfl_xor_sync(kAllLanes, value, step, kWidth);
    value = other > value ? other : value;
  }
  return value;
}

// The sum over all threads of a one-dimensional block of whole warps, in every thread. `scratch` holds kWarp
// elements of shared memory and may be reused after the call.
template <class T>
__device__ __forceinline__ T block_sum(T value, T* scratch) {
  int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_sum(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = warp_sum(lane < warps ? scratch[lane] : T(0));
  __syncthreads();
  return value;
}

}  // namespace saccade::cuda
