// Shared by GPU kernels that drop elements.
#pragma once

#include <cmath>

#include "core/runtime/cuda/launch.h"
#include "core/tensor/philox.h"

namespace saccade::cuda {

// Philox with its round keys computed on the host: instructions take them as constants.
struct RoundKeys {
  uint32_t k[10][2];

  explicit RoundKeys(uint64_t key) {
    for (uint32_t round = 0; round < 10; ++round) {
      k[round][0] = static_cast<uint32_t>(key) + round * 0x9E3779B9u;
      k[round][1] = static_cast<uint32_t>(key >> 32) + round * 0xBB67AE85u;
    }
  }
  // Same as Philox::generate(key, hi, lo).
  __device__ __forceinline__ Philox generate(uint64_t hi, uint64_t lo) const {
    Philox r{{static_cast<uint32_t>(lo), static_cast<uint32_t>(lo >> 32), static_cast<uint32_t>(hi),
              static_cast<uint32_t>(hi >> 32)}};
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      uint64_t p0 = uint64_t{0xD2511F53u} * r.x[0], p1 = uint64_t{0xCD9E8D57u} * r.x[2];
      r = Philox{{static_cast<uint32_t>(p1 >> 32) ^ r.x[1] ^ k[round][0], static_cast<uint32_t>(p1),
                  static_cast<uint32_t>(p0 >> 32) ^ r.x[3] ^ k[round][1], static_cast<uint32_t>(p0)}};
    }
    return r;
  }
};

// uniform_from_bits(bits) >= p as an integer comparison: bits >= the result. p < 1.
inline uint32_t first_kept(float p) {
  return static_cast<uint32_t>(std::ceil(std::ldexp(static_cast<double>(p), 24))) << 8;
}

inline float keep_scale(double p) { return p < 1 ? static_cast<float>(1 / (1 - p)) : 0; }

// A dropout with p < 1 in the kernels' form; all zeros without dropout.
struct DropoutBits {
  RoundKeys keys{0};
  uint64_t call = 0, first = 0;
  uint32_t kept = 0;
  float scale = 0;

  DropoutBits() = default;
  DropoutBits(double p, uint64_t key, uint64_t call_, uint64_t first_)
      : keys(key),
        call(call_),
        first(first_),
        kept(first_kept(static_cast<float>(p))),
        scale(keep_scale(p)) {}
  __device__ bool on() const { return scale != 0; }
  // Applies the dropout to elements i to i + kCount of a tensor of T, as kernels::dropout does; kCount is 1
  // or a multiple of 4 that divides i.
  template <class T, int kCount>
  __device__ __forceinline__ void apply(int64_t i, float (&v)[kCount]) const {
    if constexpr (kCount == 1) {
      const uint32_t bits = keys.generate(call, first / 4 + static_cast<uint64_t>(i / 4)).x[i % 4];
      v[0] = static_cast<float>(T(bits >= kept ? v[0] * scale : 0.0f));
    } else {
#pragma unroll
      for (int g = 0; g < kCount; g += 4) {
        const Philox bits = keys.generate(call, first / 4 + static_cast<uint64_t>((i + g) / 4));
#pragma unroll
        for (int j = 0; j < 4; ++j)
          v[g + j] = static_cast<float>(T(bits.x[j] >= kept ? v[g + j] * scale : 0.0f));
      }
    }
  }
};

}  // namespace saccade::cuda
