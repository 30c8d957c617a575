// Attention kernels over a Problem, which says where the rows of a head lie and what its scores are: plain
// attention (attention.cu) and windows (window_attention.cu) share the kernels. A Problem has
//   Element; queries, keys, D, Dv, scale, dropout; packs, pairs (which accesses its rows allow)
//   Head, head(index, shared), member(group, i), members(group): a head by number, by place in a group that
//     shares its bias
//   query, key, value, dy(head, i): a row or nullptr for zeros
//   output, dquery, dkey, dvalue(head, i): a row or nullptr where nothing is stored; filler(head, i, part)
//   key_term(head, s): 0, or -inf for keys that take no part; has_pair_terms(), pair_term(head, q, s)
//   row(head, q): its place in lse and delta; dpairs [groups, queries, keys] or nullptr
// Scores are scale * dot + key_term + pair_term. Where all keys of a row take no part, lse is -inf.
#pragma once

#include "core/kernels/common/tile_cuda.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"

namespace saccade::cuda {

constexpr float kMinusInfinity = -__builtin_huge_valf();

// exp(z - shift)
__device__ __forceinline__ float exp_of_difference(float z, float shift) {
  return exp2_approx((z - shift) * 1.44269504088896341f);
}

// The mask of AttentionParams::dropout_factor for the four elements of a lane in one 16x8 tile. Philox gives
// the factors of four keys at once; the lanes that need parts of one draw share it.
struct Dropout {
  float probability = 0, factor = 1;  // of the weights that stay
  uint64_t key = 0, call = 0;

  // Bit c: key 4 * block + c of a row is dropped.
  __device__ unsigned draw(int64_t row, int64_t keys, int64_t block) const {
    Philox random = Philox::generate(key, call, static_cast<uint64_t>(row * ((keys + 3) / 4) + block));
    unsigned bits = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) bits |= (uniform_from_bits(random.x[c]) < probability ? 1u : 0u) << c;
    return bits;
  }
  // Rows are queries from `row` on, columns keys from s on, both of the tile: bit i for element i.
  __device__ unsigned dropped(int64_t row, int64_t keys, int64_t s) const {
    int g = lane_id() / 4, t = lane_id() % 4;
    // An even lane draws for row g and its right neighbour for row g + 8.
    unsigned own = draw(row + g + t % 2 * 8, keys, s / 4 + t / 2);
    unsigned other = __shfl_xor_sync(kAllLanes, own, 1);
    unsigned upper = t % 2 ? other : own, lower = t % 2 ? own : other;
    return (upper >> (t % 2 * 2) & 3u) | (lower >> (t % 2 * 2) & 3u) << 2;
  }
  // Rows are keys, columns queries.
  __device__ unsigned dropped_transposed(int64_t row, int64_t keys, int64_t s) const {
    int g = lane_id() / 4, t = lane_id() % 4, i = g % 4;
    // Lanes with one t and g / 4 need the same four draws; each makes one.
    unsigned bits = draw(row + 2 * t + i % 2, keys, s / 4 + g / 4 + i / 2 * 2) << (4 * i);
    bits |= __shfl_xor_sync(kAllLanes, bits, 4);
    bits |= __shfl_xor_sync(kAllLanes, bits, 8);
    unsigned out = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) out |= (bits >> (4 * e + i) & 1u) << e;
    return out;
  }
};

// Of problems without dropout: the kernels have no code for it.
struct NoDropout {
  static constexpr float probability = 0, factor = 1;
  __device__ unsigned dropped(int64_t, int64_t, int64_t) const { return 0; }
  __device__ unsigned dropped_transposed(int64_t, int64_t, int64_t) const { return 0; }
};

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

// Calls f<kMma, kD>() with the arithmetic for tensors of this dtype and the smallest head size for which
// kernels exist that holds `size`; false: there is none.
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
