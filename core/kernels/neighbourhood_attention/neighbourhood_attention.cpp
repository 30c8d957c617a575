// Single-source neighbourhood attention: attention_generic.h over the queries of the map; a key gathers what
// the queries that see it leave.
#include "core/kernels/attention/attention_generic.h"
#include "core/kernels/neighbourhood_attention/neighbour_heads.h"
#include "core/kernels/reduce/reduce.h"

namespace saccade::kernels {
namespace {

// dk and dv of a key.
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

// A row of queries adds up what it leaves in an entry of the table.
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
    p.lse = const_cast<A*>(lse.data<A>());  // which is only read
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
