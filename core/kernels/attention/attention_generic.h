// Single-source attention over the heads of attention_heads.h: every row of a result has one owner. Scores
// are recomputed wherever they are needed, so that nothing of size queries * keys is stored.
#pragma once

#include <cmath>

#include "core/kernels/attention/attention_heads.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

template <class Heads>
struct AttentionWeights {
  using T = typename Heads::Element;
  using A = acc_t<T>;
  using Head = typename Heads::Head;
  static constexpr int kChannels = 16;  // accumulated at a time
  Heads p;

  SACCADE_HD static A dot(const T* a, const T* b, int size) {
    A sum = 0;
    for (int d = 0; d < size; ++d) sum += static_cast<A>(a[d]) * static_cast<A>(b[d]);
    return sum;
  }
  SACCADE_HD A score(const Head& head, int q, int s) const {
    A skip = p.key_term(head, s);
    if (skip == kMinusInfinity<A>) return skip;
    return dot(p.query(head, q), p.key(head, s), p.D) * p.scale + p.pair_term(head, q, s);
  }
  // The weight before dropout.
  SACCADE_HD A weight(const Head& head, int q, int s) const {
    A lse = p.lse[p.row(head, q)];
    return lse == kMinusInfinity<A> ? A(0) : std::exp(score(head, q, s) - lse);
  }
  SACCADE_HD A kept(const Head& head, int q, int s) const {
    return p.dropout.probability > 0 ? static_cast<A>(p.dropout.factor_of(p.row(head, q), s, p.keys)) : A(1);
  }
  // d(loss)/d(weight before dropout)
  SACCADE_HD A dweight(const Head& head, int q, int s) const {
    const T* dy = p.dy(head, q);
    return dy ? dot(dy, p.value(head, s), p.Dv) * kept(head, q, s) : A(0);
  }
  SACCADE_HD A dscore(const Head& head, int q, int s) const {
    return weight(head, q, s) * (dweight(head, q, s) - p.delta[p.row(head, q)]);
  }
  // out [size] = the sum over i < count of factor(i) times row(i), which may be null for zeros.
  template <class Out, class Factor, class Row>
  SACCADE_HD static void weighted_sum(Out* out, int size, int count, const Factor& factor, const Row& row) {
    for (int d0 = 0; d0 < size; d0 += kChannels) {
      int channels = size - d0 < kChannels ? size - d0 : kChannels;
      A sum[kChannels] = {};
      for (int i = 0; i < count; ++i) {
        const T* from = row(i);
        if (!from) continue;
        A f = factor(i);
        for (int d = 0; d < channels; ++d) sum[d] += f * static_cast<A>(from[d0 + d]);
      }
      for (int d = 0; d < channels; ++d) out[d0 + d] = static_cast<Out>(sum[d]);
    }
  }
};

template <class Heads>
struct AttentionForward {  // i = head * queries + query
  AttentionWeights<Heads> of;
  using A = acc_t<typename Heads::Element>;
  SACCADE_HD void operator()(int64_t i) const {
    const Heads& p = of.p;
    auto head = p.head(i / p.queries);
    int q = static_cast<int>(i % p.queries);
    A top = kMinusInfinity<A>, total = 0;
    for (int s = 0; s < p.keys; ++s) {
      A z = of.score(head, q, s);
      if (z == kMinusInfinity<A>) continue;
      if (z > top) {
        total = total * std::exp(top - z) + 1;
        top = z;
      } else {
        total += std::exp(z - top);
      }
    }
    p.lse[i] = total > 0 ? top + std::log(total) : total == 0 ? kMinusInfinity<A> : total;
    if (auto* y = p.output(head, q)) {
      of.weighted_sum(
          y, p.Dv, p.keys, [&](int s) { return of.weight(head, q, s) * of.kept(head, q, s); },
          [&](int s) { return p.value(head, s); });
    }
  }
};

// Computes delta and dq of a row.
template <class Heads>
struct AttentionQueryGradient {  // i = head * queries + query
  AttentionWeights<Heads> of;
  SACCADE_HD void operator()(int64_t i) const {
    const Heads& p = of.p;
    auto head = p.head(i / p.queries);
    int q = static_cast<int>(i % p.queries);
    acc_t<typename Heads::Element> sum = 0;
    for (int s = 0; s < p.keys; ++s) sum += of.weight(head, q, s) * of.dweight(head, q, s);
    p.delta[i] = sum;
    if (auto* dq = p.dquery(head, q)) {
      of.weighted_sum(
          dq, p.D, p.keys, [&](int s) { return of.dscore(head, q, s) * p.scale; },
          [&](int s) { return p.key(head, s); });
    }
  }
};

template <class Heads>
struct AttentionKeyGradient {  // i = head * keys + key
  AttentionWeights<Heads> of;
  SACCADE_HD void operator()(int64_t i) const {
    const Heads& p = of.p;
    auto head = p.head(i / p.keys);
    int s = static_cast<int>(i % p.keys);
    auto add_queries = [&](auto* out) {
      if (!out) return;
      of.weighted_sum(
          out, p.D, p.queries, [&](int q) { return of.dscore(head, q, s) * p.scale; },
          [&](int q) { return p.query(head, q); });
    };
    auto add_outputs = [&](auto* out) {
      if (!out) return;
      of.weighted_sum(
          out, p.Dv, p.queries, [&](int q) { return of.weight(head, q, s) * of.kept(head, q, s); },
          [&](int q) { return p.dy(head, q); });
    };
    add_queries(p.dkey(head, s));
    add_queries(p.filler(head, s, 0));
    add_outputs(p.dvalue(head, s));
    add_outputs(p.filler(head, s, 1));
  }
};

template <class Heads>
struct AttentionPairGradient {  // i over dpairs
  AttentionWeights<Heads> of;
  SACCADE_HD void operator()(int64_t i) const {
    const Heads& p = of.p;
    int s = static_cast<int>(i % p.keys), q = static_cast<int>(i / p.keys % p.queries);
    int group = static_cast<int>(i / p.keys / p.queries);
    acc_t<typename Heads::Element> sum = 0;
    for (int64_t j = 0; j < p.members(group); ++j) sum += of.dscore(p.head(p.member(group, j)), q, s);
    p.dpairs[i] = sum;
  }
};

template <class Heads>
void forward_of_heads(const Heads& p) {
  for_each(p.count() * p.queries, AttentionForward<Heads>{{p}}, int64_t{p.keys} * (p.D + p.Dv) * 2);
}
template <class Heads>
void backward_of_heads(const Heads& p) {
  int64_t cost = int64_t{p.D + p.Dv} * 3;
  for_each(p.count() * p.queries, AttentionQueryGradient<Heads>{{p}}, p.keys * cost);
  if (p.wants_key_gradients())
    for_each(p.count() * p.keys, AttentionKeyGradient<Heads>{{p}}, p.queries * cost);
  if (p.dpairs)
    for_each(p.groups() * p.queries * p.keys, AttentionPairGradient<Heads>{{p}},
             cost * ceil_div(p.count(), std::max<int64_t>(1, p.groups())));
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
