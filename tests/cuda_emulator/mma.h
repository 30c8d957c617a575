// The tensor-core instructions of core/kernels/common/mma_cuda.h on the emulated GPU: the lanes of a warp
// show each other their registers, and each computes its outputs by the documented layout.
#pragma once

#include <cstdint>
#include <cstring>

#include "tests/cuda_emulator/emulator.h"

namespace saccade::emulator {

// bf16 or tf32, given as the bits of an f32.
inline float float_of_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// The hooks need not see the registers of other lanes.
#define SACCADE_UNSEEN __attribute__((no_sanitize("thread"), noinline))

// a(row, k) and b(k, column) read element k of a lane's registers.
template <int kDepth, class A, class B>
SACCADE_UNSEEN void add_product(float (&d)[4], unsigned lane, const A& a, const B& b) {
  for (unsigned i = 0; i < 4; ++i) {
    unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    float sum = 0;
    for (unsigned k = 0; k < kDepth; ++k) sum += a(row, k) * b(k, column);
    d[i] += sum;
  }
}

SACCADE_UNSEEN inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    const char* file, int line) {
  auto lanes = share({{a[0], a[1], a[2], a[3], b0, b1}}, file, line);
  auto half = [](uint32_t x, unsigned k) { return float_of_bits(k % 2 ? x & 0xFFFF0000u : x << 16); };
  add_product<16>(
      d, lane_of_thread(),
      [&](unsigned row, unsigned k) {
        return half(lanes[row % 8 * 4 + k % 8 / 2].x[row / 8 + 2 * (k / 8)], k);
      },
      [&](unsigned k, unsigned column) { return half(lanes[column * 4 + k % 8 / 2].x[4 + k / 8], k); });
}

SACCADE_UNSEEN inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    const char* file, int line) {
  auto lanes = share({{a[0], a[1], a[2], a[3], b0, b1}}, file, line);
  // The hardware ignores the lower 13 bits.
  auto value = [](uint32_t x) { return float_of_bits(x & ~0x1FFFu); };
  add_product<8>(
      d, lane_of_thread(),
      [&](unsigned row, unsigned k) { return value(lanes[row % 8 * 4 + k % 4].x[row / 8 + 2 * (k / 4)]); },
      [&](unsigned k, unsigned column) { return value(lanes[column * 4 + k % 4].x[4 + k / 4]); });
}

SACCADE_UNSEEN inline void load_matrices(uint32_t (&x)[4], const void* row, bool transposed, const char* file,
                                         int line) {
  uint64_t address = reinterpret_cast<uint64_t>(row);
  if (address % 16 != 0) report_fault("ldmatrix from an address that is not a multiple of 16");
  auto lanes = share({{static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32)}}, file, line);
  unsigned lane = lane_of_thread();
  auto element = [&](unsigned matrix, unsigned r, unsigned c) {
    const LaneWords& at = lanes[8 * matrix + r];
    const char* p = reinterpret_cast<const char*>(uint64_t{at.x[0]} | uint64_t{at.x[1]} << 32) + 2 * c;
    check_access(p, 2, Access::kRead);
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return uint32_t{bits};
  };
  for (unsigned i = 0; i < 4; ++i) {
    unsigned g = lane / 4, t2 = lane % 4 * 2;
    x[i] = transposed ? element(i, t2, g) | element(i, t2 + 1, g) << 16
                      : element(i, g, t2) | element(i, g, t2 + 1) << 16;
  }
}
#undef SACCADE_UNSEEN

}  // namespace saccade::emulator
