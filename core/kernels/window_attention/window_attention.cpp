// Single-source window attention: one owner per row of scores, which are recomputed wherever they are needed.
#include "core/kernels/window_attention/window_attention.h"

#include <cmath>
#include <limits>

#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class T, class A = acc_t<T>>
struct WindowInputs {
  const T *qkv, *padding;
  const A* table;
  const bool* mask;
  WindowGeometry map;
  int64_t N, C, heads, D, T2, side;  // T2 tokens a window; side = 2t - 1
  A scale;

  static WindowInputs make(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                           const WindowParams& p) {
    int64_t C = qkv.dim(3) / 3, side = 1;
    while (table.defined() && side * side < table.dim(0)) side += 2;
    return {qkv.data<T>(),
            padding.data<T>(),
            data_or_null<A>(table),
            data_or_null<bool>(mask),
            WindowGeometry(qkv.dim(1), qkv.dim(2), p),
            qkv.dim(0),
            C,
            p.heads,
            C / p.heads,
            p.window * p.window,
            side,
            static_cast<A>(p.scale)};
  }
  // i = ((n * windows + w) * heads + h) * T2 + t
  struct Row {
    int64_t n, w, h, t;
  };
  SACCADE_HD int64_t row_count() const { return N * map.count() * heads * T2; }
  SACCADE_HD Row row(int64_t i) const {
    return {i / T2 / heads / map.count(), i / T2 / heads % map.count(), i / T2 % heads, i % T2};
  }
  SACCADE_HD int64_t index(const Row& r) const {
    return ((r.n * map.count() + r.w) * heads + r.h) * T2 + r.t;
  }
  // Query (part 0), key (1) or value (2) of a token.
  SACCADE_HD const T* vector(const Row& r, int64_t t, int64_t part) const {
    int64_t token = map.token(r.w, t);
    return (token < 0 ? padding : qkv + (r.n * map.H * map.W + token) * 3 * C) + part * C + r.h * D;
  }
  SACCADE_HD int64_t table_row(int64_t q, int64_t k) const {
    int64_t dy = q / map.window - k / map.window + side / 2, dx = q % map.window - k % map.window + side / 2;
    return dy * side + dx;
  }
  SACCADE_HD A score(const Row& r, int64_t q, int64_t k) const {
    if (mask) {
      int64_t token = map.token(r.w, k);
      if (token >= 0 && mask[r.n * map.H * map.W + token]) return -std::numeric_limits<A>::infinity();
    }
    const T *a = vector(r, q, 0), *b = vector(r, k, 1);
    A sum = 0;
    for (int64_t d = 0; d < D; ++d) sum += static_cast<A>(a[d]) * static_cast<A>(b[d]);
    sum *= scale;
    if (table) sum += table[table_row(q, k) * heads + r.h];
    if (map.region(r.w, q) != map.region(r.w, k)) sum += A(kOtherRegion);
    return sum;
  }
  SACCADE_HD A weight(A score_value, A lse) const {
    return lse == -std::numeric_limits<A>::infinity() ? A(0) : std::exp(score_value - lse);
  }
};

template <class T, class A = acc_t<T>>
struct WindowForward {
  WindowInputs<T> p;
  T* y;
  A* lse;
  SACCADE_HD void operator()(int64_t i) const {
    auto r = p.row(i);
    A top = -std::numeric_limits<A>::infinity(), total = 0;
    for (int64_t k = 0; k < p.T2; ++k) top = std::fmax(top, p.score(r, r.t, k));
    if (top != -std::numeric_limits<A>::infinity())
      for (int64_t k = 0; k < p.T2; ++k) total += std::exp(p.score(r, r.t, k) - top);
    lse[i] = total > 0 ? top + std::log(total) : -std::numeric_limits<A>::infinity();
    int64_t token = p.map.token(r.w, r.t);
    if (token < 0) return;
    T* out = y + (r.n * p.map.H * p.map.W + token) * p.C + r.h * p.D;
    for (int64_t d = 0; d < p.D; ++d) {
      A sum = 0;
      for (int64_t k = 0; k < p.T2; ++k)
        sum += p.weight(p.score(r, r.t, k), lse[i]) * static_cast<A>(p.vector(r, k, 2)[d]);
      out[d] = static_cast<T>(sum);
    }
  }
};

template <class T, class A = acc_t<T>>
struct GradientInputs {
  WindowInputs<T> p;
  const T* dy;
  const A* lse;
  // Zero for a filler: its output is cut off.
  SACCADE_HD const T* output(const typename WindowInputs<T>::Row& r, int64_t q) const {
    int64_t token = p.map.token(r.w, q);
    return token < 0 ? nullptr : dy + (r.n * p.map.H * p.map.W + token) * p.C + r.h * p.D;
  }
  SACCADE_HD A weight(typename WindowInputs<T>::Row r, int64_t q, int64_t k) const {
    r.t = q;
    return p.weight(p.score(r, q, k), lse[p.index(r)]);
  }
  SACCADE_HD A dweight(const typename WindowInputs<T>::Row& r, const T* g, int64_t k) const {
    const T* v = p.vector(r, k, 2);
    A sum = 0;
    for (int64_t d = 0; d < p.D; ++d) sum += static_cast<A>(g[d]) * static_cast<A>(v[d]);
    return sum;
  }
  // Gradient of the score of q and k; delta is the row's sum of weight * dweight.
  SACCADE_HD A dscore(const typename WindowInputs<T>::Row& r, int64_t q, int64_t k, A delta) const {
    const T* g = output(r, q);
    return g ? weight(r, q, k) * (dweight(r, g, k) - delta) : A(0);
  }
};

// The gradients of the windows' tokens, fillers too: parts [N * windows * T2, 3C].
template <class T, class A = acc_t<T>>
struct QueryGradient {
  GradientInputs<T> g;
  A *delta, *parts;
  SACCADE_HD void operator()(int64_t i) const {
    const WindowInputs<T>& p = g.p;
    auto r = p.row(i);
    const T* out = g.output(r, r.t);
    A sum = 0;
    if (out)
      for (int64_t k = 0; k < p.T2; ++k) sum += g.weight(r, r.t, k) * g.dweight(r, out, k);
    delta[i] = sum;
    A* dq = parts + ((r.n * p.map.count() + r.w) * p.T2 + r.t) * 3 * p.C + r.h * p.D;
    for (int64_t d = 0; d < p.D; ++d) dq[d] = 0;
    for (int64_t k = 0; k < p.T2; ++k) {
      A s = g.dscore(r, r.t, k, sum) * p.scale;
      const T* key = p.vector(r, k, 1);
      for (int64_t d = 0; d < p.D; ++d) dq[d] += s * static_cast<A>(key[d]);
    }
  }
};

template <class T, class A = acc_t<T>>
struct KeyGradient {  // t of the row is the key
  GradientInputs<T> g;
  const A* delta;
  A* parts;
  SACCADE_HD void operator()(int64_t i) const {
    const WindowInputs<T>& p = g.p;
    auto r = p.row(i);
    A* dk = parts + ((r.n * p.map.count() + r.w) * p.T2 + r.t) * 3 * p.C + p.C + r.h * p.D;
    A* dv = dk + p.C;
    for (int64_t d = 0; d < p.D; ++d) dk[d] = dv[d] = 0;
    for (int64_t q = 0; q < p.T2; ++q) {
      const T* out = g.output(r, q);
      if (!out) continue;
      A w = g.weight(r, q, r.t), s = g.dscore(r, q, r.t, delta[i - r.t + q]) * p.scale;
      const T* query = p.vector(r, q, 0);
      for (int64_t d = 0; d < p.D; ++d) {
        dk[d] += s * static_cast<A>(query[d]);
        dv[d] += w * static_cast<A>(out[d]);
      }
    }
  }
};

template <class T, class A = acc_t<T>>
struct TableGradient {  // i = row of the table * heads + h
  GradientInputs<T> g;
  const A* delta;
  A* dtable;
  SACCADE_HD void operator()(int64_t i) const {
    const WindowInputs<T>& p = g.p;
    int64_t side = p.side, dy = i / p.heads / side - side / 2, dx = i / p.heads % side - side / 2;
    int64_t width = p.map.window;
    A sum = 0;
    for (int64_t nw = 0; nw < p.N * p.map.count(); ++nw) {
      typename WindowInputs<T>::Row r{nw / p.map.count(), nw % p.map.count(), i % p.heads, 0};
      for (int64_t q = 0; q < p.T2; ++q) {
        int64_t y = q / width - dy, x = q % width - dx;
        if (y < 0 || y >= width || x < 0 || x >= width) continue;
        r.t = q;
        sum += g.dscore(r, q, y * width + x, delta[p.index(r)]);
      }
    }
    dtable[i] = sum;
  }
};

// From the windows back to the map.
template <class T, class A = acc_t<T>>
struct ScatterTokens {  // i = (n * windows + w) * T2 + t
  WindowInputs<T> p;
  const A* parts;
  T* dqkv;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t token = p.map.token(i / p.T2 % p.map.count(), i % p.T2);
    if (token < 0) return;
    int64_t n = i / p.T2 / p.map.count();
    for (int64_t c = 0; c < 3 * p.C; ++c)
      dqkv[(n * p.map.H * p.map.W + token) * 3 * p.C + c] = static_cast<T>(parts[i * 3 * p.C + c]);
  }
};

template <class T, class A = acc_t<T>>
struct FillerGradient {  // i < 3C
  WindowInputs<T> p;
  const A* parts;
  A* dpadding;
  SACCADE_HD void operator()(int64_t i) const {
    A sum = 0;
    for (int64_t j = 0; j < p.N * p.map.count() * p.T2; ++j)
      if (p.map.token(j / p.T2 % p.map.count(), j % p.T2) < 0) sum += parts[j * 3 * p.C + i];
    dpadding[i] = sum;
  }
};

void forward_generic(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                     const WindowParams& params, Tensor& y, Tensor& lse) {
  dispatch_float(qkv.dtype(), "window_attention", [&]<class T>() {
    auto p = WindowInputs<T>::make(qkv, table, padding, mask, params);
    for_each(p.row_count(), WindowForward<T>{p, y.data<T>(), lse.data<acc_t<T>>()}, p.T2 * p.D * 4);
  });
}

void backward_generic(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                      const WindowParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                      Tensor& dtable, Tensor& dpadding) {
  dispatch_float(qkv.dtype(), "window_attention", [&]<class T>() {
    using A = acc_t<T>;
    GradientInputs<T> g{WindowInputs<T>::make(qkv, table, padding, mask, params), dy.data<T>(),
                        lse.data<A>()};
    const WindowInputs<T>& p = g.p;
    int64_t tokens = p.N * p.map.count() * p.T2, cost = p.T2 * p.D * 6;
    Tensor parts = Tensor::empty({tokens, 3 * p.C}, dtype_of<A>, qkv.device());
    Tensor delta = lse.empty_like();
    for_each(p.row_count(), QueryGradient<T>{g, delta.data<A>(), parts.data<A>()}, cost);
    if (dqkv.defined() || dpadding.defined())
      for_each(p.row_count(), KeyGradient<T>{g, delta.data<A>(), parts.data<A>()}, cost);
    if (dqkv.defined()) for_each(tokens, ScatterTokens<T>{p, parts.data<A>(), dqkv.data<T>()}, 3 * p.C);
    if (dtable.defined())
      for_each(dtable.numel(), TableGradient<T>{g, delta.data<A>(), dtable.data<A>()}, p.N * cost);
    if (dpadding.defined())
      for_each(3 * p.C, FillerGradient<T>{p, parts.data<A>(), dpadding.data<A>()}, tokens);
  });
}

SACCADE_REGISTER_KERNEL(window_attention_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(window_attention_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
