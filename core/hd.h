// Marks functions that run on the host and, when nvcc compiles them, on the device too.
#pragma once

#ifdef __CUDACC__
#define SACCADE_HD __host__ __device__ __forceinline__
#else
#define SACCADE_HD inline __attribute__((always_inline))
#endif
