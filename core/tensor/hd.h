// Marks functions that run on the host and, when the source is compiled for the GPU, on the device too. The
// same source is compiled once for each side; SACCADE_SIDE names it, as an inline namespace for what headers
// define differently for the two.
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
