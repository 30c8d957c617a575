// The windows of a map as heads of attention (attention/attention_heads.h): each head of a window is one.
// Rows are read from and written to their places in the map.
#pragma once

#include "core/kernels/attention/attention_heads.h"
#include "core/kernels/reduce/reduce.h"
#include "core/kernels/window_attention/window_attention.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// Returns the side of a table: (2t - 1)^2 rows for the smallest t that holds them.
inline int side_of_table(const Tensor& table) {
  int side = 1;
  while (table.defined() && int64_t{side} * side < table.dim(0)) side += 2;
  return side;
}

template <class T>
struct WindowHeads {
  using Element = T;
  using A = acc_t<T>;
  const T *qkv, *padding, *dy_map = nullptr;
  const A* table;
  const bool* mask;
  WindowGeometry map;
  int N, C, H, D, Dv, queries, keys, table_side;
  A scale;
  NoDropout dropout;
  static constexpr bool deltas_known = false;
  bool packs = false, pairs = false;
  T *y = nullptr, *dqkv = nullptr;
  A *lse = nullptr, *delta = nullptr, *dpairs = nullptr;
  A* fillers = nullptr;       // [N, fillers, 2C]: gradients of the keys and values of every filler
  int64_t group_windows = 1;  // a group of dpairs: one head of this many windows

  WindowHeads(const Tensor& qkv_map, const Tensor& bias_table, const Tensor& filler, const Tensor& key_mask,
              const WindowParams& params)
      : qkv(qkv_map.data<T>()),
        padding(filler.data<T>()),
        table(data_or_null<A>(bias_table)),
        mask(data_or_null<bool>(key_mask)),
        map(qkv_map.dim(1), qkv_map.dim(2), params),
        N(static_cast<int>(qkv_map.dim(0))),
        C(static_cast<int>(qkv_map.dim(3) / 3)),
        H(static_cast<int>(params.heads)),
        D(C / H),
        Dv(D),
        queries(static_cast<int>(params.window * params.window)),
        keys(queries),
        table_side(side_of_table(bias_table)),
        scale(static_cast<A>(params.scale)) {}
  void set_outputs(Tensor& output, Tensor& log_sums) {
    y = output.data<T>();
    lse = log_sums.data<A>();
  }
  // Sets the tensors that backward reads and writes, calls run(), which computes the gradients of every
  // filler, and sums these into dpadding.
  template <class Run>
  void with_gradients(const Tensor& log_sums, const Tensor& dy, Tensor& dqkv_map, Tensor& dpadding,
                      const Run& run) {
    Tensor deltas = log_sums.empty_like(), of_fillers;
    lse = const_cast<A*>(log_sums.data<A>());  // it is only read
    delta = deltas.data<A>();
    dy_map = dy.data<T>();
    dqkv = data_or_null<T>(dqkv_map);
    int64_t filler_count = int64_t{N} * map.fillers();
    if (dpadding.defined() && filler_count > 0) {
      of_fillers = Tensor::empty({1, filler_count, 2 * C}, dtype_of<A>, dy.device());
      fillers = of_fillers.data<A>();
    }
    run();
    if (!dpadding.defined()) return;
    // The queries of fillers have no output.
    dpadding.slice(0, 0, fillers ? C : 3 * C).fill(0);
    if (!fillers) return;
    Tensor sums = dpadding.slice(0, C, 3 * C);
    sum_middle(of_fillers, 1, sums);
  }
  // fits(rows, size): whether rows of this size can be read in packs.
  template <class Fits>
  void find_accesses(const Fits& fits) {
    packs = fits(qkv, D) && fits(padding, D) && fits(dy_map, D);
    pairs = D % 2 == 0;
  }

  SACCADE_HD int64_t windows() const { return int64_t{N} * map.count(); }
  int64_t count() const { return windows() * H; }
  int64_t groups() const { return ceil_div(windows(), group_windows) * H; }
  bool wants_key_gradients() const { return dqkv || fillers; }

  struct Head {
    int64_t number;
    int n, w, h;
    WindowGeometry map;
    SACCADE_HD int token(int i) const { return map.token(w, i); }
  };
  SACCADE_HD Head head(int64_t number) const {
    return {number, static_cast<int>(number / H / map.count()), static_cast<int>(number / H % map.count()),
            static_cast<int>(number % H), map};
  }
  SACCADE_HD bool one_member() const { return false; }
  SACCADE_HD int64_t members(int group) const {
    int64_t rest = windows() - group / H * group_windows;
    return rest < group_windows ? rest : group_windows;
  }
  SACCADE_HD int64_t member(int group, int64_t i) const {
    return (group / H * group_windows + i) * H + group % H;
  }

  // Returns a token's row of the head in a map of `parts` times C channels; nullptr for a filler and after
  // the last token. Heads are those above or others that know their tokens.
  template <class E, class AnyHead>
  SACCADE_HD E* row_of(E* x, const AnyHead& head, int i, int parts, int part) const {
    if (x == nullptr || i >= queries || head.token(i) < 0) return nullptr;
    return x + ((int64_t{head.n} * map.H * map.W + head.token(i)) * parts + part) * C + head.h * D;
  }
  SACCADE_HD const T* input(const auto& head, int i, int part) const {
    if (i < queries && head.token(i) < 0) return padding + part * C + head.h * D;
    return row_of(qkv, head, i, 3, part);
  }
  SACCADE_HD const T* query(const auto& head, int i) const { return input(head, i, 0); }
  SACCADE_HD const T* key(const auto& head, int i) const { return input(head, i, 1); }
  SACCADE_HD const T* value(const auto& head, int i) const { return input(head, i, 2); }
  // The outputs of fillers are discarded.
  SACCADE_HD const T* dy(const auto& head, int i) const { return row_of(dy_map, head, i, 1, 0); }
  SACCADE_HD T* output(const auto& head, int i) const { return row_of(y, head, i, 1, 0); }
  SACCADE_HD bool wants_dq() const { return dqkv != nullptr; }
  SACCADE_HD T* dquery(const auto& head, int i) const { return row_of(dqkv, head, i, 3, 0); }
  SACCADE_HD T* dkey(const auto& head, int i) const { return row_of(dqkv, head, i, 3, 1); }
  SACCADE_HD T* dvalue(const auto& head, int i) const { return row_of(dqkv, head, i, 3, 2); }
  // The gradient of a filler's key (part 0) or value (part 1).
  SACCADE_HD A* filler(const auto& head, int i, int part) const {
    if (fillers == nullptr || i >= queries || head.token(i) >= 0) return nullptr;
    int64_t filler = int64_t{head.n} * map.fillers() - 1 - head.token(i);
    return fillers + (filler * 2 + part) * C + head.h * D;
  }

  SACCADE_HD int64_t row(const auto& head, int i) const { return int64_t{head.number} * queries + i; }
  SACCADE_HD bool owns_row(const auto&, int) const { return true; }
  SACCADE_HD int queries_of(const auto&) const { return queries; }
  SACCADE_HD A key_term(const auto& head, int s) const {
    if (s >= keys) return kMinusInfinity<A>;
    bool ignored =
        mask != nullptr && head.token(s) >= 0 && mask[int64_t{head.n} * map.H * map.W + head.token(s)];
    return ignored ? kMinusInfinity<A> : A(0);
  }
  SACCADE_HD bool has_pair_terms() const { return table != nullptr || map.shift > 0; }
  SACCADE_HD A pair_term(const Head& head, int q, int s) const {
    int dy = q / map.window - s / map.window + table_side / 2;
    int dx = q % map.window - s % map.window + table_side / 2;
    A bias = table ? table[int64_t{dy * table_side + dx} * H + head.h] : A(0);
    return map.region(head.w, q) != map.region(head.w, s) ? bias + A(kOtherRegion) : bias;
  }
};

// The gradient of the table: a row sums the pairs of tokens with its displacement.
template <class A>
struct FoldTable {  // i = row * H + h
  const A* pairs;   // [H, T2, T2], where the last axis has length `stride`
  A* dtable;
  int window, table_side, H, stride;
  SACCADE_HD void operator()(int64_t i) const {
    int row = static_cast<int>(i / H), h = static_cast<int>(i % H), tokens = window * window;
    int dy = row / table_side - table_side / 2, dx = row % table_side - table_side / 2;
    A sum = 0;
    for (int y = dy > 0 ? dy : 0; y < window + (dy < 0 ? dy : 0); ++y)
      for (int x = dx > 0 ? dx : 0; x < window + (dx < 0 ? dx : 0); ++x)
        sum += pairs[(int64_t{h} * tokens + y * window + x) * stride + (y - dy) * window + x - dx];
    dtable[i] = sum;
  }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
