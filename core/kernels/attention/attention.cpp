// Single-source attention. Scores are recomputed wherever they are needed, so that nothing of size Q * S is
// stored.
#include "core/kernels/attention/attention.h"

#include <cmath>
#include <limits>

#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class T, class A = acc_t<T>>
struct AttentionInputs {
  const T *q, *k, *v;
  const bool* mask;
  const A* bias;
  AttentionParams params;
  int64_t N, Q, S, H, D, Dv, bias_n, bias_h;

  static AttentionInputs make(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                              const Tensor& bias, const AttentionParams& params) {
    AttentionInputs p{q.data<T>(),
                      k.data<T>(),
                      v.data<T>(),
                      data_or_null<bool>(mask),
                      data_or_null<A>(bias),
                      params,
                      q.dim(0),
                      q.dim(1),
                      k.dim(1),
                      params.heads,
                      q.dim(2) / params.heads,
                      v.dim(2) / params.heads,
                      bias.defined() ? bias.dim(0) : 1,
                      bias.defined() ? bias.dim(1) : 1};
    return p;
  }
  SACCADE_HD int64_t row(int64_t n, int64_t h, int64_t qi) const { return (n * H + h) * Q + qi; }
  SACCADE_HD const T* query(int64_t n, int64_t h, int64_t qi) const { return q + ((n * Q + qi) * H + h) * D; }
  SACCADE_HD const T* key(int64_t n, int64_t h, int64_t s) const { return k + ((n * S + s) * H + h) * D; }
  SACCADE_HD const T* value(int64_t n, int64_t h, int64_t s) const { return v + ((n * S + s) * H + h) * Dv; }
  SACCADE_HD A score(int64_t n, int64_t h, int64_t qi, int64_t s) const {
    if (mask && mask[n * S + s]) return -std::numeric_limits<A>::infinity();
    const T *a = query(n, h, qi), *b = key(n, h, s);
    A sum = 0;
    for (int64_t d = 0; d < D; ++d) sum += static_cast<A>(a[d]) * static_cast<A>(b[d]);
    sum *= static_cast<A>(params.scale);
    if (bias) sum += bias[(((bias_n == 1 ? 0 : n) * bias_h + (bias_h == 1 ? 0 : h)) * Q + qi) * S + s];
    return sum;
  }
  SACCADE_HD A dropped(int64_t n, int64_t h, int64_t qi, int64_t s) const {
    return params.dropout > 0 ? static_cast<A>(params.dropout_factor(row(n, h, qi), s, S)) : A(1);
  }
  // The weight before dropout.
  SACCADE_HD A weight(A score_value, A lse) const {
    return lse == -std::numeric_limits<A>::infinity() ? A(0) : std::exp(score_value - lse);
  }
  // d(loss)/d(weight before dropout), given the gradient of the output row.
  SACCADE_HD A dweight(int64_t n, int64_t h, int64_t qi, int64_t s, const T* g) const {
    const T* b = value(n, h, s);
    A sum = 0;
    for (int64_t d = 0; d < Dv; ++d) sum += static_cast<A>(g[d]) * static_cast<A>(b[d]);
    return sum * dropped(n, h, qi, s);
  }
};

constexpr int kChannels = 16;  // accumulated at a time

template <class T, class A = acc_t<T>>
struct AttentionForward {  // i = (n * H + h) * Q + q
  AttentionInputs<T> p;
  T* y;
  A* lse;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / p.Q / p.H, h = i / p.Q % p.H, qi = i % p.Q;
    A top = -std::numeric_limits<A>::infinity(), total = 0;
    for (int64_t s = 0; s < p.S; ++s) {
      A z = p.score(n, h, qi, s);
      if (z == -std::numeric_limits<A>::infinity()) continue;
      if (z > top) {
        total = total * std::exp(top - z) + 1;
        top = z;
      } else {
        total += std::exp(z - top);
      }
    }
    A row_lse = total > 0 ? top + std::log(total) : total == 0 ? -std::numeric_limits<A>::infinity() : total;
    lse[i] = row_lse;
    T* out = y + ((n * p.Q + qi) * p.H + h) * p.Dv;
    for (int64_t d0 = 0; d0 < p.Dv; d0 += kChannels) {
      int64_t count = p.Dv - d0 < kChannels ? p.Dv - d0 : kChannels;
      A sum[kChannels] = {};
      for (int64_t s = 0; s < p.S; ++s) {
        A w = p.weight(p.score(n, h, qi, s), row_lse) * p.dropped(n, h, qi, s);
        const T* b = p.value(n, h, s) + d0;
        for (int64_t d = 0; d < count; ++d) sum[d] += w * static_cast<A>(b[d]);
      }
      for (int64_t d = 0; d < count; ++d) out[d0 + d] = static_cast<T>(sum[d]);
    }
  }
};

template <class T, class A = acc_t<T>>
struct GradientInputs {
  AttentionInputs<T> p;
  const T* dy;
  const A* lse;
  SACCADE_HD const T* gradient(int64_t n, int64_t h, int64_t qi) const {
    return dy + ((n * p.Q + qi) * p.H + h) * p.Dv;
  }
};

// dq of a row, and delta = sum over s of weight * d(loss)/d(weight), which the other gradients need.
template <class T, class A = acc_t<T>>
struct QueryGradient {  // i = (n * H + h) * Q + q
  GradientInputs<T> b;
  A *delta, *dq;  // dq may be null
  SACCADE_HD void operator()(int64_t i) const {
    const AttentionInputs<T>& p = b.p;
    int64_t n = i / p.Q / p.H, h = i / p.Q % p.H, qi = i % p.Q;
    const T* g = b.gradient(n, h, qi);
    A sum = 0;
    for (int64_t s = 0; s < p.S; ++s)
      sum += p.weight(p.score(n, h, qi, s), b.lse[i]) * p.dweight(n, h, qi, s, g);
    delta[i] = sum;
    if (!dq) return;
    A* out = dq + ((n * p.Q + qi) * p.H + h) * p.D;
    for (int64_t d = 0; d < p.D; ++d) out[d] = 0;
    for (int64_t s = 0; s < p.S; ++s) {
      A w = p.weight(p.score(n, h, qi, s), b.lse[i]);
      A dscore = w * (p.dweight(n, h, qi, s, g) - sum) * static_cast<A>(p.params.scale);
      const T* k = p.key(n, h, s);
      for (int64_t d = 0; d < p.D; ++d) out[d] += dscore * static_cast<A>(k[d]);
    }
  }
};

template <class T, class A = acc_t<T>>
struct KeyGradient {  // i = (n * H + h) * S + s
  GradientInputs<T> b;
  const A* delta;
  A *dk, *dv;  // may be null
  SACCADE_HD void operator()(int64_t i) const {
    const AttentionInputs<T>& p = b.p;
    int64_t n = i / p.S / p.H, h = i / p.S % p.H, s = i % p.S;
    A* out_k = dk ? dk + ((n * p.S + s) * p.H + h) * p.D : nullptr;
    A* out_v = dv ? dv + ((n * p.S + s) * p.H + h) * p.Dv : nullptr;
    if (dk) {
      for (int64_t d = 0; d < p.D; ++d) out_k[d] = 0;
    }
    if (dv) {
      for (int64_t d = 0; d < p.Dv; ++d) out_v[d] = 0;
    }
    for (int64_t qi = 0; qi < p.Q; ++qi) {
      int64_t row = p.row(n, h, qi);
      const T *g = b.gradient(n, h, qi), *q = p.query(n, h, qi);
      A w = p.weight(p.score(n, h, qi, s), b.lse[row]);
      if (dv) {
        A kept = w * p.dropped(n, h, qi, s);
        for (int64_t d = 0; d < p.Dv; ++d) out_v[d] += kept * static_cast<A>(g[d]);
      }
      if (dk) {
        A dscore = w * (p.dweight(n, h, qi, s, g) - delta[row]) * static_cast<A>(p.params.scale);
        for (int64_t d = 0; d < p.D; ++d) out_k[d] += dscore * static_cast<A>(q[d]);
      }
    }
  }
};

template <class T, class A = acc_t<T>>
struct BiasGradient {  // i over the elements of bias; sums the images and heads that share it
  GradientInputs<T> b;
  const A* delta;
  A* dbias;
  SACCADE_HD void operator()(int64_t i) const {
    const AttentionInputs<T>& p = b.p;
    int64_t s = i % p.S, qi = i / p.S % p.Q, hb = i / p.S / p.Q % p.bias_h, nb = i / p.S / p.Q / p.bias_h;
    int64_t n_end = p.bias_n == 1 ? p.N : nb + 1, h_end = p.bias_h == 1 ? p.H : hb + 1;
    A sum = 0;
    for (int64_t n = nb; n < n_end; ++n) {
      for (int64_t h = hb; h < h_end; ++h) {
        int64_t row = p.row(n, h, qi);
        A w = p.weight(p.score(n, h, qi, s), b.lse[row]);
        sum += w * (p.dweight(n, h, qi, s, b.gradient(n, h, qi)) - delta[row]);
      }
    }
    dbias[i] = sum;
  }
};

void forward_generic(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                     const Tensor& bias, const AttentionParams& params, Tensor& y, Tensor& lse) {
  dispatch_float(q.dtype(), "attention", [&]<class T>() {
    auto p = AttentionInputs<T>::make(q, k, v, mask, bias, params);
    for_each(p.N * p.H * p.Q, AttentionForward<T>{p, y.data<T>(), lse.data<acc_t<T>>()},
             p.S * (p.D + p.Dv) * 2);
  });
}

void backward_generic(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                      const Tensor& bias, const AttentionParams& params, const Tensor& lse, const Tensor& dy,
                      Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias) {
  dispatch_float(q.dtype(), "attention", [&]<class T>() {
    using A = acc_t<T>;
    GradientInputs<T> b{AttentionInputs<T>::make(q, k, v, mask, bias, params), dy.data<T>(), lse.data<A>()};
    const AttentionInputs<T>& p = b.p;
    int64_t cost = (p.D + p.Dv) * 3;
    auto summed = [&](const Tensor& t) {  // bf16 gradients are summed in f32
      return t.defined() && !std::is_same_v<T, A> ? Tensor::empty(t.shape(), dtype_of<A>, t.device()) : t;
    };
    Tensor sq = summed(dq), sk = summed(dk), sv = summed(dv), delta = lse.empty_like();
    for_each(p.N * p.H * p.Q, QueryGradient<T>{b, delta.data<A>(), data_or_null<A>(sq)}, p.S * cost);
    if (sk.defined() || sv.defined()) {
      for_each(p.N * p.H * p.S, KeyGradient<T>{b, delta.data<A>(), data_or_null<A>(sk), data_or_null<A>(sv)},
               p.Q * cost);
    }
    if (dbias.defined()) {
      int64_t shared = (p.bias_n == 1 ? p.N : 1) * (p.bias_h == 1 ? p.H : 1);
      for_each(dbias.numel(), BiasGradient<T>{b, delta.data<A>(), dbias.data<A>()}, cost * shared);
    }
    if (!std::is_same_v<T, A>) {
      if (dq.defined()) copy(sq, dq);
      if (dk.defined()) copy(sk, dk);
      if (dv.defined()) copy(sv, dv);
    }
  });
}

SACCADE_REGISTER_KERNEL(attention_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(attention_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
