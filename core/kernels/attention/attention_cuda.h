// Shared by the attention kernels of the GPU. They run over the heads of attention_heads.h. A Head may keep
// data in shared memory, after the kernel's own.
#pragma once

#include "core/kernels/attention/attention_heads.h"
#include "core/kernels/attention/tile_cuda.h"
#include "core/tensor/execution.h"

namespace saccade::cuda {

constexpr float kMinusInfinity = kernels::kMinusInfinity<float>;

// exp(z - shift)
__device__ __forceinline__ float exp_of_difference(float z, float shift) {
  return exp2_approx((z - shift) * 1.44269504088896341f);
}

// Bit c is set if weight 4 * block + c of a row is dropped.
template <class Mask>
__device__ __forceinline__ unsigned dropped_of_block(const Mask& mask, int64_t row, int64_t block,
                                                     int64_t keys) {
  auto random = mask.draw(row, block, keys);
  unsigned bits = 0;
#pragma unroll
  for (int c = 0; c < 4; ++c) bits |= (mask.drops(random.x[c]) ? 1u : 0u) << c;
  return bits;
}
// Returns which of a lane's four elements in one 16x8 tile are dropped, bit i for element i. Philox draws
// four keys at once; the lanes that need parts of one draw share it. The tile's rows are queries from `row`
// on, its columns keys from s on.
template <class Mask>
__device__ unsigned dropped(const Mask& mask, int64_t row, int64_t s, int64_t keys) {
  int g = lane_id() / 4, t = lane_id() % 4;
  // An even lane draws for row g and its right neighbour for row g + 8.
  unsigned own = dropped_of_block(mask, row + g + t % 2 * 8, s / 4 + t / 2, keys);
  unsigned other = __shfl_xor_sync(kAllLanes, own, 1);
  unsigned upper = t % 2 ? other : own, lower = t % 2 ? own : other;
  return (upper >> (t % 2 * 2) & 3u) | (lower >> (t % 2 * 2) & 3u) << 2;
}
// The same with keys as rows and queries as columns.
template <class Mask>
__device__ unsigned dropped_transposed(const Mask& mask, int64_t row, int64_t s, int64_t keys) {
  int g = lane_id() / 4, t = lane_id() % 4, i = g % 4;
  // Lanes with equal t and g / 4 need the same four draws; each makes one.
  unsigned bits = dropped_of_block(mask, row + 2 * t + i % 2, s / 4 + g / 4 + i / 2 * 2, keys) << (4 * i);
  bits |= __shfl_xor_sync(kAllLanes, bits, 4);
  bits |= __shfl_xor_sync(kAllLanes, bits, 8);
  unsigned out = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) out |= (bits >> (4 * e + i) & 1u) << e;
  return out;
}

template <int kRows_, int kColumns_, int kM_, int kWarps_>
struct TileShape {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kM = kM_, kWarps = kWarps_;
  static constexpr int kThreads = kWarps * kWarp;
  static_assert(kRows == 16 * kM * kWarps);
};

template <Mma kMma, int kD>
inline constexpr size_t tile_bytes(int rows) {
  return static_cast<size_t>(rows) * kTileStride<kMma, kD> * sizeof(Stored<kMma>);
}

template <class Heads>
void find_accesses(Heads& p) {
  p.find_accesses([]<class T>(const T* rows, int64_t size) { return packs_fit<kPackWidth<T>>(rows, size); });
}

// Calls f<kMma, kD>() with the arithmetic for tensors of this dtype and the smallest available head size kD
// >= `size`. Returns false if there is none.
template <class F>
bool dispatch_attention(DType dtype, int64_t size, const F& f) {
  if ((dtype != DType::kBF16 && dtype != DType::kF32) || size > 128) return false;
  auto sized = [&]<Mma kMma>() {
    if (size <= 16) return f.template operator()<kMma, 16>();
    if (size <= 32) return f.template operator()<kMma, 32>();
    if (size <= 64) return f.template operator()<kMma, 64>();
    f.template operator()<kMma, 128>();
  };
  if (dtype == DType::kBF16) {
    sized.template operator()<Mma::kBf16>();
  } else if (execution().math == MathMode::kTf32) {
    sized.template operator()<Mma::kTf32>();
  } else {
    sized.template operator()<Mma::kFma>();
  }
  return true;
}

}  // namespace saccade::cuda
