// Describes where the rows of attention's heads are and what is added to their scores. The kernels are
// written over such a description, so that plain attention (here) and the windows of a map
// (window_attention/window_heads.h) share them: the generic ones (attention_generic.h) and those of the GPU
// (attention_cuda.h). Its members:
//   Element; queries, keys, D, Dv, scale, dropout; packs, pairs (which accesses its rows allow on the GPU)
//   Head, head(index, shared), member(group, i), members(group): a head by number, or by position in a group
//     that shares its bias
//   query, key, value, dy(head, i): a row, or nullptr for zeros
//   output, dquery, dkey, dvalue(head, i): a row, or nullptr if nothing is stored; filler(head, i, part)
//   key_term(head, s): 0, or -inf for keys that take no part; has_pair_terms(), pair_term(head, q, s)
//   deltas_known: whether delta already holds numbers
//   row(head, q): its index in lse and delta, which the head writes if owns_row(head, q)
//   queries_of(head): later rows do not belong to this head; dpairs [groups, queries, keys] or nullptr
// Scores are scale * dot + key_term + pair_term. If no key of a row takes part, lse is -inf. delta of a row
// is its sum of weight * d(loss)/d(weight), which is also dot(y, dy).
#pragma once

#include "core/kernels/attention/attention.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

template <class A>
inline constexpr A kMinusInfinity = -std::numeric_limits<A>::infinity();

// For heads whose weights are never dropped: their kernels contain no dropout code.
struct NoDropout {
  static constexpr float probability = 0, factor = 1;
  SACCADE_HD Philox draw(int64_t, int64_t, int64_t) const { return {}; }
  SACCADE_HD bool drops(uint32_t) const { return false; }
  SACCADE_HD float factor_of(int64_t, int64_t, int64_t) const { return 1; }
};

// Heads are slices of the channels.
template <class T>
struct AttentionHeads {
  using Element = T;
  using A = acc_t<T>;
  const T *q, *k, *v, *dy_rows = nullptr;
  const bool* mask;
  const A* bias;
  int queries, keys, D, Dv, N, H, bias_n, bias_h;
  int64_t q_step, k_step, v_step;  // from row to row
  A scale;
  Dropout dropout;
  bool packs = false, pairs = false, deltas_known = false;
  T *y = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  A *lse = nullptr, *delta = nullptr, *dpairs = nullptr;

  AttentionHeads(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask,
                 const Tensor& scores_bias, const AttentionParams& params)
      : q(query.data<T>()),
        k(key.data<T>()),
        v(value.data<T>()),
        mask(data_or_null<bool>(key_padding_mask)),
        bias(data_or_null<A>(scores_bias)),
        queries(static_cast<int>(query.dim(1))),
        keys(static_cast<int>(key.dim(1))),
        D(static_cast<int>(query.dim(2) / params.heads)),
        Dv(static_cast<int>(value.dim(2) / params.heads)),
        N(static_cast<int>(query.dim(0))),
        H(static_cast<int>(params.heads)),
        bias_n(bias ? static_cast<int>(scores_bias.dim(0)) : 1),
        bias_h(bias ? static_cast<int>(scores_bias.dim(1)) : 1),
        q_step(query.strides()[1]),
        k_step(key.strides()[1]),
        v_step(value.strides()[1]),
        scale(static_cast<A>(params.scale)),
        dropout(params) {}
  void set_outputs(Tensor& output, Tensor& log_sums) {
    y = output.data<T>();
    lse = log_sums.data<A>();
  }
  void set_gradients(const Tensor& log_sums, Tensor& deltas, const Tensor& dy_all, Tensor& dq_all,
                     Tensor& dk_all, Tensor& dv_all, Tensor& dbias) {
    lse = const_cast<A*>(log_sums.data<A>());  // it is only read
    delta = deltas.data<A>();
    dy_rows = dy_all.data<T>();
    dq = data_or_null<T>(dq_all);
    dk = data_or_null<T>(dk_all);
    dv = data_or_null<T>(dv_all);
    dpairs = data_or_null<A>(dbias);
  }
  // fits(rows, size): whether rows of this size can be read in packs.
  template <class Fits>
  void find_accesses(const Fits& fits) {
    packs = fits(q, D) && fits(k, D) && fits(v, Dv) && fits(dy_rows, Dv) && fits(y, Dv) && fits(q, q_step) &&
            fits(k, k_step) && fits(v, v_step);
    pairs = D % 2 == 0 && Dv % 2 == 0;
  }

  int64_t count() const { return int64_t{N} * H; }
  int64_t groups() const { return int64_t{bias_n} * bias_h; }
  bool wants_key_gradients() const { return dk || dv; }
  size_t head_bytes() const { return 0; }  // shared memory for a Head

  struct Head {
    int64_t number, n, h;
    const A* bias;
  };
  SACCADE_HD Head head(int64_t number, void* = nullptr) const {
    int64_t n = number / H, h = number % H;
    return {
        number, n, h,
        bias ? bias + ((bias_n == 1 ? 0 : n) * bias_h + (bias_h == 1 ? 0 : h)) * queries * keys : nullptr};
  }
  // The heads of a group share a matrix of the bias.
  SACCADE_HD bool one_member() const { return (bias_n > 1 || N == 1) && (bias_h > 1 || H == 1); }
  SACCADE_HD int64_t members(int) const { return int64_t{bias_n == 1 ? N : 1} * (bias_h == 1 ? H : 1); }
  SACCADE_HD int64_t member(int group, int64_t i) const {
    int64_t shared_heads = bias_h == 1 ? H : 1;
    int64_t n = bias_n == 1 ? i / shared_heads : group / bias_h;
    return n * H + (bias_h == 1 ? i % shared_heads : group % bias_h);
  }

  template <class E>
  SACCADE_HD E* row_of(E* x, const Head& head, int i, int rows, int size) const {
    return row_of(x, head, i, rows, size, int64_t{H} * size);
  }
  template <class E>
  SACCADE_HD E* row_of(E* x, const Head& head, int i, int rows, int size, int64_t step) const {
    return x != nullptr && i < rows ? x + (head.n * rows + i) * step + head.h * size : nullptr;
  }
  SACCADE_HD const T* query(const Head& head, int i) const { return row_of(q, head, i, queries, D, q_step); }
  SACCADE_HD const T* key(const Head& head, int i) const { return row_of(k, head, i, keys, D, k_step); }
  SACCADE_HD const T* value(const Head& head, int i) const { return row_of(v, head, i, keys, Dv, v_step); }
  SACCADE_HD const T* dy(const Head& head, int i) const { return row_of(dy_rows, head, i, queries, Dv); }
  SACCADE_HD T* output(const Head& head, int i) const { return row_of(y, head, i, queries, Dv); }
  SACCADE_HD bool wants_dq() const { return dq != nullptr; }
  SACCADE_HD T* dquery(const Head& head, int i) const { return row_of(dq, head, i, queries, D); }
  SACCADE_HD T* dkey(const Head& head, int i) const { return row_of(dk, head, i, keys, D); }
  SACCADE_HD T* dvalue(const Head& head, int i) const { return row_of(dv, head, i, keys, Dv); }
  SACCADE_HD A* filler(const Head&, int, int) const { return nullptr; }

  SACCADE_HD int64_t row(const Head& head, int i) const { return head.number * queries + i; }
  SACCADE_HD bool owns_row(const Head&, int) const { return true; }
  SACCADE_HD int queries_of(const Head&) const { return queries; }
  SACCADE_HD A key_term(const Head& head, int s) const {
    return s >= keys || (mask != nullptr && mask[head.n * keys + s]) ? kMinusInfinity<A> : A(0);
  }
  SACCADE_HD bool has_pair_terms() const { return bias != nullptr; }
  SACCADE_HD A pair_term(const Head& head, int i, int s) const {
    return bias != nullptr && i < queries && s < keys ? head.bias[int64_t{i} * keys + s] : A(0);
  }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
