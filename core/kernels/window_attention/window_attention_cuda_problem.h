// The Problem (attention.h) of core/kernels/window_attention/window_attention.h: a head of one window is a head of attention.
// Rows are read from the map and written to it where they lie; what a block must know of its window is worked
// out once, into shared memory.
#pragma once

#include "core/kernels/attention/attention_cuda.h"
#include "core/kernels/window_attention/window_attention.h"

namespace saccade::cuda {

// Shared memory of a block that every GPU since sm_80 gives: what windows are handled here.
inline constexpr size_t kWindowSharedBytes = 96 << 10;
// Of it behind the kernel's own, for a WindowProblem's Head.
inline size_t window_head_bytes(int64_t window) {
  return sizeof(int) * 2 * static_cast<size_t>(window * window) +
         sizeof(float) * static_cast<size_t>((2 * window - 1) * (2 * window - 1));
}

template <class T>
struct WindowProblem {
  using Element = T;
  using Geometry = kernels::WindowGeometryOf<int>;
  const T *qkv, *padding, *dy_map = nullptr;
  const float* table;
  const bool* mask;
  Geometry map;
  int N, C, num_heads, D, Dv, queries, keys, table_side;
  float scale;
  NoDropout dropout;
  bool packs, pairs;
  T *y = nullptr, *dqkv = nullptr;
  float *lse, *delta = nullptr;
  float* fillers = nullptr;  // [N, fillers, 2C]: gradients of the keys and values of every filler
  float* dpairs = nullptr;
  int64_t group_windows = 1;  // a group of dpairs: one head of so many windows

  WindowProblem(const Tensor& qkv_map, const Tensor& bias_table, const Tensor& filler, const Tensor& key_mask,
                const kernels::WindowParams& params)
      : qkv(qkv_map.data<T>()),
        padding(filler.data<T>()),
        table(data_or_null<float>(bias_table)),
        mask(data_or_null<bool>(key_mask)),
        map(qkv_map.dim(1), qkv_map.dim(2), params),
        N(static_cast<int>(qkv_map.dim(0))),
        C(static_cast<int>(qkv_map.dim(3) / 3)),
        num_heads(static_cast<int>(params.heads)),
        D(C / num_heads),
        Dv(D),
        queries(static_cast<int>(params.window * params.window)),
        keys(queries),
        table_side(1),
        scale(static_cast<float>(params.scale)),
        packs(packs_fit<kPackWidth<T>>(qkv, D) && packs_fit<kPackWidth<T>>(padding, D)),
        pairs(D % 2 == 0) {
    while (table && int64_t{table_side} * table_side < bias_table.dim(0)) table_side += 2;
  }

  int64_t windows() const { return int64_t{N} * map.count(); }
  int64_t heads() const { return windows() * num_heads; }
  __host__ __device__ int side() const { return 2 * map.window - 1; }
  size_t head_bytes() const { return window_head_bytes(map.window); }

  struct Head {
    unsigned number;
    int n, h;
    const int* tokens;  // index into the map, or -1 - filler
  };
  // Behind the tokens: 4 * (y * side + x) + region of each, at (y, x) of the window.
  __device__ const int* codes(const Head& head) const { return head.tokens + queries; }
  // Behind these: the biases by difference of y * side + x, query less key.
  __device__ float bias(const Head& head, int difference) const {
    return reinterpret_cast<const float*>(head.tokens + 2 * queries)[side() * side() / 2 + difference];
  }
  // All threads of the block; ends with a barrier.
  __device__ Head head(int64_t number, void* shared) const {
    auto index = static_cast<unsigned>(number);
    int h = static_cast<int>(index % num_heads), w = static_cast<int>(index / num_heads % map.count());
    int n = static_cast<int>(index / num_heads / map.count()), width = side(),
        thread = static_cast<int>(threadIdx.x);
    int *tokens = static_cast<int*>(shared), *token_codes = tokens + queries;
    auto* biases = reinterpret_cast<float*>(token_codes + queries);
    for (int i = thread; i < queries; i += static_cast<int>(blockDim.x)) {
      tokens[i] = map.token_or_filler(w, i);
      token_codes[i] = 4 * (i / map.window * width + i % map.window) + map.region(w, i);
    }
    // The window's part of a table that may be made for larger ones.
    int margin = (table_side - width) / 2;
    for (int i = thread; i < width * width; i += static_cast<int>(blockDim.x)) {
      int row = (i / width + margin) * table_side + i % width + margin;
      biases[i] = table != nullptr ? table[int64_t{row} * num_heads + h] : 0.0f;
    }
    __syncthreads();
    return {index, n, h, tokens};
  }
  __device__ bool one_member() const { return false; }
  __device__ int64_t members(int group) const {
    int64_t first = group / num_heads * group_windows, all = int64_t{N} * map.count();
    return all - first < group_windows ? all - first : group_windows;
  }
  __device__ int64_t member(int group, int64_t i) const {
    return (group / num_heads * group_windows + i) * num_heads + group % num_heads;
  }

  // A token's row of the head in a map of `parts` times C channels; nullptr for a filler and behind the last
  // token.
  template <class E>
  __device__ E* row_of(E* x, const Head& head, int i, int parts, int part) const {
    if (x == nullptr || i >= queries || head.tokens[i] < 0) return nullptr;
    return x + ((int64_t{head.n} * map.H * map.W + head.tokens[i]) * parts + part) * C + head.h * D;
  }
  __device__ const T* input(const Head& head, int i, int part) const {
    if (i < queries && head.tokens[i] < 0) return padding + part * C + head.h * D;
    return row_of(qkv, head, i, 3, part);
  }
  __device__ const T* query(const Head& head, int i) const { return input(head, i, 0); }
  __device__ const T* key(const Head& head, int i) const { return input(head, i, 1); }
  __device__ const T* value(const Head& head, int i) const { return input(head, i, 2); }
  // The outputs of fillers are cut off.
  __device__ const T* dy(const Head& head, int i) const { return row_of(dy_map, head, i, 1, 0); }
  __device__ T* output(const Head& head, int i) const { return row_of(y, head, i, 1, 0); }
  __device__ bool wants_dq() const { return dqkv != nullptr; }
  __device__ T* dquery(const Head& head, int i) const { return row_of(dqkv, head, i, 3, 0); }
  __device__ T* dkey(const Head& head, int i) const { return row_of(dqkv, head, i, 3, 1); }
  __device__ T* dvalue(const Head& head, int i) const { return row_of(dqkv, head, i, 3, 2); }
  // Of the key (part 0) or value (1).
  __device__ float* filler(const Head& head, int i, int part) const {
    if (fillers == nullptr || i >= queries || head.tokens[i] >= 0) return nullptr;
    int64_t filler = int64_t{head.n} * map.fillers() - 1 - head.tokens[i];
    return fillers + (filler * 2 + part) * C + head.h * D;
  }

  __device__ int64_t row(const Head& head, int i) const { return int64_t{head.number} * queries + i; }
  __device__ float key_term(const Head& head, int s) const {
    if (s >= keys) return kMinusInfinity;
    bool ignored =
        mask != nullptr && head.tokens[s] >= 0 && mask[int64_t{head.n} * map.H * map.W + head.tokens[s]];
    return ignored ? kMinusInfinity : 0.0f;
  }
  __device__ bool has_pair_terms() const { return table != nullptr || map.shift > 0; }
  __device__ float pair_term(const Head& head, int i, int s) const {
    if (i >= queries || s >= keys) return 0.0f;
    int a = codes(head)[i], b = codes(head)[s];
    return bias(head, (a >> 2) - (b >> 2)) + (((a ^ b) & 3) != 0 ? kernels::kOtherRegion : 0.0f);
  }
};

}  // namespace saccade::cuda
