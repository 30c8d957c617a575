#include "core/kernels/sampled_position_bias/sampled_position_bias.h"

#include "core/kernels/common/bilinear.h"
#include "core/kernels/reduce/reduce.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class A>
struct BiasInputs {
  const A *table, *query, *key;
  int64_t N, H, Th, Tw, Q, G, S, query_n;

  static BiasInputs make(const Tensor& table, const Tensor& query, const Tensor& key) {
    return {table.data<A>(), query.data<A>(), key.data<A>(), key.dim(0), table.dim(0), table.dim(1),
            table.dim(2),    query.dim(1),    key.dim(1),    key.dim(2), query.dim(0)};
  }
  SACCADE_HD int64_t group_heads() const { return H / G; }
  SACCADE_HD int64_t cells() const { return Th * Tw; }
  // The number of entries per unit of (query - key) / 2.
  SACCADE_HD A scale(int64_t size) const { return static_cast<A>(size - 1) * A(0.5); }
  SACCADE_HD Bilinear<A> sample(int64_t n, int64_t g, int64_t q, int64_t s) const {
    const A* a = query + ((query_n == 1 ? 0 : n) * Q + q) * 2;
    const A* b = key + ((n * G + g) * S + s) * 2;
    return Bilinear<A>::at(((a[0] - b[0]) * A(0.5) + 1) * scale(Tw), ((a[1] - b[1]) * A(0.5) + 1) * scale(Th),
                           Th, Tw);
  }
  SACCADE_HD int64_t element(int64_t n, int64_t h, int64_t q, int64_t s) const {
    return ((n * H + h) * Q + q) * S + s;
  }
};

template <class A>
struct BiasForward {  // i = (n * H + h) * Q + q
  BiasInputs<A> p;
  A* bias;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / p.Q / p.H, h = i / p.Q % p.H, q = i % p.Q;
    const A* table = p.table + h * p.cells();
    for (int64_t s = 0; s < p.S; ++s) {
      Bilinear<A> b = p.sample(n, h / p.group_heads(), q, s);
      A sum = 0;
      for (int c = 0; c < 4; ++c)
        if (int64_t at = b.cell(c, p.Th, p.Tw); at >= 0) sum += b.weight(c) * table[at];
      bias[i * p.S + s] = sum;
    }
  }
};

// Adds d(loss)/d(x) and d(loss)/d(y) of the sampling position of (n, g, q, s), over the group's heads.
template <class A>
SACCADE_HD void add_position_gradient(const BiasInputs<A>& p, const A* dbias, int64_t n, int64_t g, int64_t q,
                                      int64_t s, A& dx, A& dy) {
  Bilinear<A> b = p.sample(n, g, q, s);
  A dot[4] = {};
  for (int64_t h = g * p.group_heads(); h < (g + 1) * p.group_heads(); ++h) {
    A d = dbias[p.element(n, h, q, s)];
    for (int c = 0; c < 4; ++c)
      if (int64_t at = b.cell(c, p.Th, p.Tw); at >= 0) dot[c] += d * p.table[h * p.cells() + at];
  }
  dx += b.slope_x(dot);
  dy += b.slope_y(dot);
}

template <class A>
struct KeyGradient {  // i = (n * G + g) * S + s
  BiasInputs<A> p;
  const A* dbias;
  A* dkey;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / p.S / p.G, g = i / p.S % p.G, s = i % p.S;
    A dx = 0, dy = 0;
    for (int64_t q = 0; q < p.Q; ++q) add_position_gradient(p, dbias, n, g, q, s, dx, dy);
    dkey[2 * i] = -dx * p.scale(p.Tw) * A(0.5);
    dkey[2 * i + 1] = -dy * p.scale(p.Th) * A(0.5);
  }
};

template <class A>
struct QueryGradient {  // i: rows of query, n * Q + q, or q for all images
  BiasInputs<A> p;
  const A* dbias;
  A* dquery;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t q = i % p.Q, begin = i / p.Q, end = p.query_n == 1 ? p.N : begin + 1;
    A dx = 0, dy = 0;
    for (int64_t n = begin; n < end; ++n)
      for (int64_t g = 0; g < p.G; ++g)
        for (int64_t s = 0; s < p.S; ++s) add_position_gradient(p, dbias, n, g, q, s, dx, dy);
    dquery[2 * i] = dx * p.scale(p.Tw) * A(0.5);
    dquery[2 * i + 1] = dy * p.scale(p.Th) * A(0.5);
  }
};

template <class A>
struct TableGradient {  // i = n * H + h owns part i
  BiasInputs<A> p;
  const A* dbias;
  A* parts;  // [N, H, Th, Tw], initially zero
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / p.H, h = i % p.H;
    A* part = parts + i * p.cells();
    for (int64_t q = 0; q < p.Q; ++q) {
      for (int64_t s = 0; s < p.S; ++s) {
        Bilinear<A> b = p.sample(n, h / p.group_heads(), q, s);
        A d = dbias[p.element(n, h, q, s)];
        for (int c = 0; c < 4; ++c)
          if (int64_t at = b.cell(c, p.Th, p.Tw); at >= 0) part[at] += b.weight(c) * d;
      }
    }
  }
};

void forward_generic(const Tensor& table, const Tensor& query, const Tensor& key, Tensor& bias) {
  if (bias.numel() == 0) return;
  dispatch_dtype<float, double>(table.dtype(), "sampled_position_bias", [&]<class A>() {
    auto p = BiasInputs<A>::make(table, query, key);
    for_each(p.N * p.H * p.Q, BiasForward<A>{p, bias.data<A>()}, p.S * 16);
  });
}

void backward_generic(const Tensor& table, const Tensor& query, const Tensor& key, const Tensor& dbias,
                      Tensor& dtable, Tensor& dquery, Tensor& dkey) {
  dispatch_dtype<float, double>(table.dtype(), "sampled_position_bias", [&]<class A>() {
    auto p = BiasInputs<A>::make(table, query, key);
    const A* d = dbias.data<A>();
    if (dkey.defined()) {
      for_each(p.N * p.G * p.S, KeyGradient<A>{p, d, dkey.data<A>()}, p.Q * p.group_heads() * 16);
    }
    if (dquery.defined()) {
      for_each(p.query_n * p.Q, QueryGradient<A>{p, d, dquery.data<A>()}, p.S * p.H * 16);
    }
    if (dtable.defined()) {
      Tensor parts = Tensor::zeros(Shape{p.N, p.H, p.Th, p.Tw}, table.dtype(), table.device());
      for_each(p.N * p.H, TableGradient<A>{p, d, parts.data<A>()}, p.Q * p.S * 16);
      sum_to_shape(parts, 1, dtable);
    }
  });
}

SACCADE_REGISTER_KERNEL(sampled_position_bias_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(sampled_position_bias_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
