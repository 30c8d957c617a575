// The queries of a map with the windows around them as heads of attention (attention/attention_heads.h): a
// head of one query is a head, whose keys are the window's. Rows are read from the map and written to it
// where they lie.
#pragma once

#include "core/kernels/attention/attention_heads.h"
#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

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
    int top, left;   // of its window
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

  // The head's part of a token in a map of `parts` times C channels.
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

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
