// The tensor cores as PTX offers them to one warp (sm_80 and later): D = A B + D with A of 16 rows and B of 8
// columns, and the loads of their operands from shared memory. All 32 lanes take part. The layout of the
// registers (PTX ISA, "Matrix Fragments for mma.m16n8k16" and ".m16n8k8"), with g = lane / 4, t = lane % 4:
//   d[i]  row g + 8 (i / 2), column 2t + i % 2
//   bf16  a[i] rows g + 8 (i % 2), columns 2t, 2t + 1 of the half i / 2;  b[i] rows 2t, 2t + 1 of the half i,
//         column g
//   tf32  a[i] row g + 8 (i % 2), column t + 4 (i / 2);  b[i] row t + 4 i, column g
#pragma once

#include "core/runtime/cuda/approx.h"
#include "core/runtime/cuda/launch.h"
#include "core/tensor/dtype.h"

namespace saccade::cuda {

#ifdef SACCADE_EMULATOR

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::mma_bf16(d, a, b0, b1, file, line);
}
inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::mma_tf32(d, a, b0, b1, file, line);
}
template <bool kTransposed>
void load_matrices(uint32_t (&x)[4], const bf16* row, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  emulator::load_matrices(x, row, kTransposed, file, line);
}
inline uint32_t pack_bf16(float low, float high) {
  return bf16(low).bits | static_cast<uint32_t>(bf16(high).bits) << 16;
}
// Rounds to 10 bits of mantissa, ties away from zero.
inline float round_tf32(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  return (bits & 0x7F800000u) == 0x7F800000u ? x : std::bit_cast<float>((bits + 0x1000u) & ~0x1FFFu);
}

#else

__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Loads four 8x8 matrices of bf16: lane i names row i % 8 of matrix i / 8 (16 bytes, aligned); x[i] gets
// elements 2t, 2t + 1 of row g of matrix i, or of its transpose.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t (&x)[4], const bf16* row) {
  auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  }
}
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t x;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  return x;
}
__device__ __forceinline__ float round_tf32(float x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return __uint_as_float(y);
}

#endif

}  // namespace saccade::cuda
