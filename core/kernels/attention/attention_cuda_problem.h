// The Problem (attention.h) of core/kernels/attention/attention.h: heads are slices of the channels.
#pragma once

#include <cmath>

#include "core/kernels/attention/attention.h"
#include "core/kernels/attention/attention_cuda.h"

namespace saccade::cuda {

template <class T>
struct AttentionProblem {
  using Element = T;
  const T *q, *k, *v, *dy_rows = nullptr;
  const bool* mask;
  const float* bias;
  int queries, keys, D, Dv, N, H, bias_n, bias_h;
  float scale;
  Dropout dropout;
  bool packs, pairs;
  T *y = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float *lse, *delta = nullptr, *dpairs = nullptr;

  AttentionProblem(const Tensor& query, const Tensor& key, const Tensor& value,
                   const Tensor& key_padding_mask, const Tensor& scores_bias,
                   const kernels::AttentionParams& params)
      : q(query.data<T>()),
        k(key.data<T>()),
        v(value.data<T>()),
        mask(data_or_null<bool>(key_padding_mask)),
        bias(data_or_null<float>(scores_bias)),
        queries(static_cast<int>(query.dim(1))),
        keys(static_cast<int>(key.dim(1))),
        D(static_cast<int>(query.dim(2) / params.heads)),
        Dv(static_cast<int>(value.dim(2) / params.heads)),
        N(static_cast<int>(query.dim(0))),
        H(static_cast<int>(params.heads)),
        bias_n(bias ? static_cast<int>(scores_bias.dim(0)) : 1),
        bias_h(bias ? static_cast<int>(scores_bias.dim(1)) : 1),
        scale(static_cast<float>(params.scale)),
        dropout{static_cast<float>(params.dropout), static_cast<float>(1 / (1 - params.dropout)), params.key,
                params.call},
        packs(packs_fit<kPackWidth<T>>(q, D) && packs_fit<kPackWidth<T>>(k, D) &&
              packs_fit<kPackWidth<T>>(v, Dv)),
        pairs(D % 2 == 0 && Dv % 2 == 0) {}

  int64_t heads() const { return int64_t{N} * H; }
  int groups() const { return bias_n * bias_h; }

  struct Head {
    int64_t number, n, h;
    const float* bias;
  };
  __device__ Head head(int64_t number, void*) const {
    int64_t n = number / H, h = number % H;
    return {
        number, n, h,
        bias ? bias + ((bias_n == 1 ? 0 : n) * bias_h + (bias_h == 1 ? 0 : h)) * queries * keys : nullptr};
  }
  // A group shares a matrix of the bias.
  __device__ bool one_member() const { return (bias_n > 1 || N == 1) && (bias_h > 1 || H == 1); }
  __device__ int64_t members(int) const { return int64_t{bias_n == 1 ? N : 1} * (bias_h == 1 ? H : 1); }
  __device__ int64_t member(int group, int64_t i) const {
    int64_t shared_heads = bias_h == 1 ? H : 1;
    int64_t n = bias_n == 1 ? i / shared_heads : group / bias_h;
    return n * H + (bias_h == 1 ? i % shared_heads : group % bias_h);
  }

  template <class E>
  __device__ E* row_of(E* x, const Head& head, int i, int count, int size) const {
    return x != nullptr && i < count ? x + ((head.n * count + i) * H + head.h) * size : nullptr;
  }
  __device__ const T* query(const Head& head, int i) const { return row_of(q, head, i, queries, D); }
  __device__ const T* key(const Head& head, int i) const { return row_of(k, head, i, keys, D); }
  __device__ const T* value(const Head& head, int i) const { return row_of(v, head, i, keys, Dv); }
  __device__ const T* dy(const Head& head, int i) const { return row_of(dy_rows, head, i, queries, Dv); }
  __device__ T* output(const Head& head, int i) const { return row_of(y, head, i, queries, Dv); }
  __device__ bool wants_dq() const { return dq != nullptr; }
  __device__ T* dquery(const Head& head, int i) const { return row_of(dq, head, i, queries, D); }
  __device__ T* dkey(const Head& head, int i) const { return row_of(dk, head, i, keys, D); }
  __device__ T* dvalue(const Head& head, int i) const { return row_of(dv, head, i, keys, Dv); }
  __device__ float* filler(const Head&, int, int) const { return nullptr; }

  __device__ int64_t row(const Head& head, int i) const { return head.number * queries + i; }
  __device__ float key_term(const Head& head, int s) const {
    return s >= keys || (mask != nullptr && mask[head.n * keys + s]) ? kMinusInfinity : 0.0f;
  }
  __device__ bool has_pair_terms() const { return bias != nullptr; }
  __device__ float pair_term(const Head& head, int i, int s) const {
    return i < queries && s < keys ? head.bias[int64_t{i} * keys + s] : 0.0f;
  }
};

inline int64_t head_size(const Tensor& q, const Tensor& v, const kernels::AttentionParams& params) {
  return std::max(q.dim(2), v.dim(2)) / params.heads;
}
// The predicate of the forward and the backward.
template <class... A>
bool attention_supported(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&,
                         const kernels::AttentionParams& params, const A&...) {
  // [&]: without a capture it would also be a pointer to a function, which nvcc refuses.
  return dispatch_attention(q.dtype(), head_size(q, v, params), [&]<Mma kMma, int kD>() {});
}

}  // namespace saccade::cuda
