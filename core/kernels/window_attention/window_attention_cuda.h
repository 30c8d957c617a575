// The heads of windows on the GPU: a block computes what it needs to know of its window once, into shared
// memory.
#pragma once

#include "core/kernels/attention/attention_cuda.h"
#include "core/kernels/window_attention/window_heads.h"

namespace saccade::cuda {

// Shared memory that every GPU since sm_80 gives a block; it limits the windows that are handled here.
inline constexpr size_t kWindowSharedBytes = 96 << 10;
// The part of it after the kernel's own, for a Head of WindowTiles.
inline size_t window_head_bytes(int64_t window) {
  return sizeof(int) * 2 * static_cast<size_t>(window * window) +
         sizeof(float) * static_cast<size_t>((2 * window - 1) * (2 * window - 1));
}

template <class T>
struct WindowTiles : kernels::WindowHeads<T> {
  using Base = kernels::WindowHeads<T>;
  using Base::Base, Base::map, Base::table, Base::table_side, Base::queries, Base::keys, Base::H;

  __host__ __device__ int side() const { return 2 * map.window - 1; }
  size_t head_bytes() const { return window_head_bytes(map.window); }

  struct Head {
    unsigned number;
    int n, h;
    const int* tokens;
    __device__ int token(int i) const { return tokens[i]; }
  };
  // After the tokens: 4 * (y * side + x) + region of each, at (y, x) of the window.
  __device__ const int* codes(const Head& head) const { return head.tokens + queries; }
  // After these: the biases by the difference of y * side + x, query minus key.
  __device__ float bias(const Head& head, int difference) const {
    return reinterpret_cast<const float*>(head.tokens + 2 * queries)[side() * side() / 2 + difference];
  }
  // All threads of the block must call it; ends with a barrier.
  __device__ Head head(int64_t number, void* shared) const {
    auto index = static_cast<unsigned>(number);
    int h = static_cast<int>(index % H), w = static_cast<int>(index / H % map.count());
    int n = static_cast<int>(index / H / map.count()), width = side(), thread = static_cast<int>(threadIdx.x);
    int *tokens = static_cast<int*>(shared), *token_codes = tokens + queries;
    auto* biases = reinterpret_cast<float*>(token_codes + queries);
    for (int i = thread; i < queries; i += static_cast<int>(blockDim.x)) {
      tokens[i] = map.token(w, i);
      token_codes[i] = 4 * (i / map.window * width + i % map.window) + map.region(w, i);
    }
    // The window's part of a table that may be made for larger ones.
    int margin = (table_side - width) / 2;
    for (int i = thread; i < width * width; i += static_cast<int>(blockDim.x)) {
      int row = (i / width + margin) * table_side + i % width + margin;
      biases[i] = table != nullptr ? table[int64_t{row} * H + h] : 0.0f;
    }
    __syncthreads();
    return {index, n, h, tokens};
  }
  __device__ float pair_term(const Head& head, int i, int s) const {
    if (i >= queries || s >= keys) return 0.0f;
    int a = codes(head)[i], b = codes(head)[s];
    return bias(head, (a >> 2) - (b >> 2)) + (((a ^ b) & 3) != 0 ? kernels::kOtherRegion : 0.0f);
  }
};

}  // namespace saccade::cuda
