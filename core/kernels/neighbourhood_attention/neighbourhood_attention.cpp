// Single-source neighbourhood attention: attention_generic.h over the queries of the map; a key gathers the
// contributions of the queries that see it.
#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"
#include "core/kernels/attention/attention_generic.h"
#include "core/kernels/reduce/reduce.h"

namespace saccade::kernels {
namespace {

// The queries of a map with the windows around them as heads of attention (attention/attention_heads.h): each
// head of one query is one, whose keys are those of the window. Rows are read from and written to their
// places in the map.
template <class T>
struct NeighbourHeads {
  using Element = T;
  using A = acc_t<T>;
  const T *qkv, *dy_map = nullptr;
  const A* table;
  const bool* mask;
  NeighbourAxis rows, columns;
  int N, C, H, D, Dv, window, keys;
  static constexpr int queries = 1;
  A scale;
  NoDropout dropout;
  T *y = nullptr, *dqkv = nullptr;
  A *lse = nullptr, *delta = nullptr;

  NeighbourHeads(const Tensor& qkv_map, const Tensor& bias_table, const Tensor& key_mask,
                 const NeighbourhoodParams& params)
      : qkv(qkv_map.data<T>()),
        table(data_or_null<A>(bias_table)),
        mask(data_or_null<bool>(key_mask)),
        rows{static_cast<int>(qkv_map.dim(1)), static_cast<int>(params.window)},
        columns{static_cast<int>(qkv_map.dim(2)), static_cast<int>(params.window)},
        N(static_cast<int>(qkv_map.dim(0))),
        C(static_cast<int>(qkv_map.dim(3) / 3)),
        H(static_cast<int>(params.heads)),
        D(C / H),
        Dv(D),
        window(static_cast<int>(params.window)),
        keys(window * window),
        scale(static_cast<A>(params.scale)) {}

  SACCADE_HD int64_t count() const { return int64_t{N} * H * rows.size * columns.size; }

  struct Head {
    int64_t number;
    int n, h, y, x;  // the query
    int top, left;   // of the query's window
  };
  SACCADE_HD Head head(int n, int h, int qy, int qx) const {
    const int64_t number = ((int64_t{n} * H + h) * rows.size + qy) * columns.size + qx;
    return {number, n, h, qy, qx, rows.first_key(qy), columns.first_key(qx)};
  }
  SACCADE_HD Head head(int64_t number) const {
    const int x = static_cast<int>(number % columns.size);
    const int64_t row = number / columns.size, map = row / rows.size;
    return head(static_cast<int>(map / H), static_cast<int>(map % H), static_cast<int>(row % rows.size), x);
  }

  // Returns the head's part of a token in a map of `parts` times C channels.
  template <class E>
  SACCADE_HD E* token(E* map, int n, int h, int ty, int tx, int parts, int part) const {
    if (map == nullptr) return nullptr;
    return map + (((int64_t{n} * rows.size + ty) * columns.size + tx) * parts + part) * C + h * D;
  }
  SACCADE_HD const T* query(const Head& a, int) const { return token(qkv, a.n, a.h, a.y, a.x, 3, 0); }
  SACCADE_HD const T* of_window(const Head& a, int s, int part) const {
    return token(qkv, a.n, a.h, a.top + s / window, a.left + s % window, 3, part);
  }
  SACCADE_HD const T* key(const Head& a, int s) const { return of_window(a, s, 1); }
  SACCADE_HD const T* value(const Head& a, int s) const { return of_window(a, s, 2); }
  SACCADE_HD const T* dy(const Head& a, int) const { return token(dy_map, a.n, a.h, a.y, a.x, 1, 0); }
  SACCADE_HD T* output(const Head& a, int) const { return token(y, a.n, a.h, a.y, a.x, 1, 0); }
  SACCADE_HD T* dquery(const Head& a, int) const { return token(dqkv, a.n, a.h, a.y, a.x, 3, 0); }

  SACCADE_HD int64_t row(const Head& a, int) const { return a.number; }
  SACCADE_HD A key_term(const Head& a, int s) const {
    const int64_t ky = a.top + s / window, kx = a.left + s % window;
    const bool ignored = mask != nullptr && mask[(a.n * int64_t{rows.size} + ky) * columns.size + kx];
    return ignored ? kMinusInfinity<A> : A(0);
  }
  SACCADE_HD A pair_term(const Head& a, int, int s) const {
    if (table == nullptr) return 0;
    const int side = 2 * window - 1, dy = a.top + s / window - a.y, dx = a.left + s % window - a.x;
    return table[(int64_t{a.h} * side + dy + window - 1) * side + dx + window - 1];
  }
};

// Computes dk and dv of a key.
template <class T>
struct NeighbourKeyGradient {  // i = ((n * H + h) * rows + y) * columns + x
  AttentionWeights<NeighbourHeads<T>> of;
  SACCADE_HD void operator()(int64_t i) const {
    const auto& p = of.p;
    const auto key = p.head(i);
    const int top = p.rows.first_query(key.y), left = p.columns.first_query(key.x);
    const int columns = p.columns.last_query(key.x) - left + 1;
    const int count = (p.rows.last_query(key.y) - top + 1) * columns;
    auto query = [&](int q) { return p.head(key.n, key.h, top + q / columns, left + q % columns); };
    auto place = [&](const auto& head) { return (key.y - head.top) * p.window + key.x - head.left; };
    of.weighted_sum(
        p.token(p.dqkv, key.n, key.h, key.y, key.x, 3, 1), p.D, count,
        [&](int q) {
          const auto head = query(q);
          return of.dscore(head, 0, place(head)) * p.scale;
        },
        [&](int q) { return p.query(query(q), 0); });
    of.weighted_sum(
        p.token(p.dqkv, key.n, key.h, key.y, key.x, 3, 2), p.D, count,
        [&](int q) {
          const auto head = query(q);
          return of.weight(head, 0, place(head));
        },
        [&](int q) { return p.dy(query(q), 0); });
  }
};

// A row of queries adds up its contributions to an entry of the table.
template <class T>
struct NeighbourTableGradient {  // i = ((n * rows + y) * H + h) * side * side + entry
  AttentionWeights<NeighbourHeads<T>> of;
  acc_t<T>* parts;
  SACCADE_HD void operator()(int64_t i) const {
    const auto& p = of.p;
    const int side = 2 * p.window - 1, entry = static_cast<int>(i % (side * side));
    const int64_t row = i / (side * side);
    const int h = static_cast<int>(row % p.H), y = static_cast<int>(row / p.H % p.rows.size);
    const int ky = y + entry / side - p.window + 1, dx = entry % side - p.window + 1;
    acc_t<T> sum = 0;
    for (int x = 0; x < p.columns.size; ++x) {
      const auto head = p.head(static_cast<int>(row / p.H / p.rows.size), h, y, x);
      const int v = ky - head.top, u = x + dx - head.left;
      if (v >= 0 && v < p.window && u >= 0 && u < p.window) sum += of.dscore(head, 0, v * p.window + u);
    }
    parts[i] = sum;
  }
};

void forward_generic(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                     const NeighbourhoodParams& params, Tensor& y, Tensor& lse) {
  dispatch_float(qkv.dtype(), "neighbourhood_attention", [&]<class T>() {
    NeighbourHeads<T> p(qkv, table, mask, params);
    p.y = y.data<T>();
    p.lse = lse.data<acc_t<T>>();
    forward_of_heads(p);
  });
}

void backward_generic(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                      const NeighbourhoodParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                      Tensor& dtable) {
  dispatch_float(qkv.dtype(), "neighbourhood_attention", [&]<class T>() {
    using A = acc_t<T>;
    NeighbourHeads<T> p(qkv, table, mask, params);
    Tensor deltas = lse.empty_like();
    p.lse = const_cast<A*>(lse.data<A>());  // it is only read
    p.delta = deltas.data<A>();
    p.dy_map = dy.data<T>();
    p.dqkv = data_or_null<T>(dqkv);
    const int64_t cost = int64_t{p.keys} * p.D * 6;
    for_each(p.count(), AttentionQueryGradient<NeighbourHeads<T>>{{p}}, cost);
    if (p.dqkv) for_each(p.count(), NeighbourKeyGradient<T>{{p}}, 2 * cost);
    if (!dtable.defined()) return;
    const int64_t side = 2 * params.window - 1;
    Tensor parts =
        Tensor::empty({int64_t{p.N} * p.rows.size, p.H, side, side}, dtable.dtype(), dtable.device());
    for_each(parts.numel(), NeighbourTableGradient<T>{{p}, parts.data<A>()}, int64_t{p.columns.size} * p.D);
    sum_to_shape(parts, 1, dtable);
  });
}

SACCADE_REGISTER_KERNEL(neighbourhood_attention_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(neighbourhood_attention_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
