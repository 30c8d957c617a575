// SACCADE_HD marks functions that run on the host and, when the source is compiled for the GPU, on the device
// too. The same source is compiled once for each side; SACCADE_SIDE names the side. Headers use it as an
// inline namespace for definitions that differ between the two.
#pragma once

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
#define SACCADE_SIDE on_cuda
#else
#define SACCADE_SIDE on_cpu
#endif

#ifdef __CUDACC__
#define SACCADE_HD __host__ __device__ __forceinline__
#else
#define SACCADE_HD inline __attribute__((always_inline))
#endif
