// Window attention for f32 and bf16 (see attention_cpu.h). A head's tokens of one window are gathered
// directly from the map; bias and region mask are laid out as rows of scores once per call, the bias at
// inference only once. One thread owns a window with all its heads, or single heads if there are few windows;
// the shape determines how sums over windows (table, fillers) are split.
#include <vector>

#include "core/kernels/attention/attention_cpu.h"
#include "core/kernels/window_attention/window_heads.h"
#include "core/runtime/launch.h"
#include "core/tensor/math.h"
#include "core/tensor/prepared.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

constexpr int64_t kParts = 16;       // the maximum for the sums over windows
constexpr int64_t kFewWindows = 16;  // fewer would give threads unequal work

struct WindowShape {
  int64_t N, C, heads, D, T, Tp;  // T tokens per window; Tp: padded to whole vectors
  WindowGeometry map;
  float scale;
  const bool* mask;
  int64_t side;             // of the table
  Tensor bias;              // [heads, T, Tp]; -inf after the last key
  LaneVector<float> other;  // [3, T, Tp]: what a window at the lower, right or both borders adds

  WindowShape(const Tensor& qkv, const Tensor& table, const Tensor& key_mask, const WindowParams& p)
      : N(qkv.dim(0)),
        C(qkv.dim(3) / 3),
        heads(p.heads),
        D(C / p.heads),
        T(p.window * p.window),
        Tp(round_up(T, kLanes)),
        map(qkv.dim(1), qkv.dim(2), p),
        scale(static_cast<float>(p.scale)),
        mask(data_or_null<bool>(key_mask)),
        side(side_of_table(table)),
        bias(table.defined() ? prepared(table, "rows of scores, window " + std::to_string(p.window),
                                        [&] { return bias_rows(table.data<float>()); })
                             : bias_rows(nullptr)) {
    if (map.shift == 0) return;
    other.assign(static_cast<size_t>(3 * T * Tp), 0.0f);
    for (int64_t border = 1; border <= 3; ++border) {
      for (int64_t q = 0; q < T; ++q) {
        for (int64_t k = 0; k < T; ++k) {
          bool apart =
              ((border & 1) != 0 && below(q) != below(k)) || ((border & 2) != 0 && right(q) != right(k));
          if (apart) other[static_cast<size_t>(((border - 1) * T + q) * Tp + k)] = kOtherRegion;
        }
      }
    }
  }
  // table [side * side, heads], or null for zeros
  Tensor bias_rows(const float* table) const {
    Tensor rows = Tensor::full({heads, T, Tp}, table ? -kInfinity : 0.0f);
    float* to = rows.data<float>();
    if (!table) {
      for (int64_t i = 0; i < heads * T; ++i) std::fill(to + i * Tp + T, to + (i + 1) * Tp, -kInfinity);
      return rows;
    }
    parallel_for(heads * T, std::max<int64_t>(1, 16384 / T), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t k = 0; k < T; ++k) to[i * Tp + k] = table[table_row(i % T, k) * heads + i / T];
    });
    return rows;
  }
  bool below(int64_t t) const { return t / map.window >= map.window - map.shift; }
  bool right(int64_t t) const { return t % map.window >= map.window - map.shift; }
  int64_t table_row(int64_t q, int64_t k) const {
    int64_t dy = q / map.window - k / map.window + side / 2, dx = q % map.window - k % map.window + side / 2;
    return dy * side + dx;
  }
  int64_t windows() const { return N * map.count(); }
};

// Processes one head of one window at a time.
template <class E>
class WindowWorker {
 public:
  WindowWorker(const WindowShape& problem, const E* qkv_data, const E* padding_data, bool backward)
      : p(problem),
        m(p.T, p.T, p.D, p.D, backward),
        qkv(qkv_data),
        padding(padding_data),
        tokens(static_cast<size_t>(p.T)),
        next_tokens(tokens),
        shifts(tokens.size()),
        totals(tokens.size()) {}

  // `next` is the window after this one; its tokens are prefetched into the cache meanwhile.
  void begin_window(int64_t window, int64_t next) {
    n = window / p.map.count();
    next_n = next / p.map.count();
    auto w = static_cast<int>(window % p.map.count()), next_w = static_cast<int>(next % p.map.count());
    for (int t = 0; t < p.T; ++t) {
      tokens[static_cast<size_t>(t)] = p.map.token(w, t);
      next_tokens[static_cast<size_t>(t)] = p.map.token(next_w, t);
    }
    other = nullptr;
    if (int64_t border = p.map.border(w)) other = p.other.data() + (border - 1) * p.T * p.Tp;
    if (!p.mask) return;
    ignored.assign(static_cast<size_t>(p.Tp), 0.0f);
    for (int64_t t = 0; t < p.T; ++t)
      if (token(t) >= 0 && p.mask[n * p.map.H * p.map.W + token(t)])
        ignored[static_cast<size_t>(t)] = -kInfinity;
  }

  void forward(int64_t h, E* y, float* lse) {
    load_head(h);
    for (int64_t i = 0; i < p.T; ++i) {
      prefetch_next(qkv, 3, h, i);
      auto score = scores_of(h, i);
      auto row = p.Tp == 4 * kLanes ? m.exponentials<4>(i, score) : m.exponentials<0>(i, score);
      shifts[static_cast<size_t>(i)] = row.shift;
      totals[static_cast<size_t>(i)] = row.total;
    }
    // The rows' sums are at least 1, or 0 if there was no key at all, which log turns into -inf.
    for (int64_t i = 0; i < p.T; ++i)
      lse[h * p.T + i] = shifts[static_cast<size_t>(i)] + math::log(totals[static_cast<size_t>(i)]);
    for (float& total : totals) total = total == 0 ? 0.0f : 1 / total;
    m.weigh_values(p.T);
    store_rows(m.out.data(), p.T, p.D, 1.0f, rows_of(y, 1, 0, h), totals.data());
  }

  // Adds to dtable [T, Tp] of this head and to dpadding [3C]; null outputs are skipped.
  void backward(int64_t h, const E* gradient, const float* lse, E* dqkv, float* dtable, float* dpadding) {
    load_head(h);
    m.load_gradients(p.T, rows_of(gradient, 1, 0, h));
    for (int64_t i = 0; i < p.T; ++i) {
      prefetch_next(qkv, 3, h, i);
      prefetch_next(gradient, 1, h, i);
      auto score = scores_of(h, i);
      if (p.Tp == 4 * kLanes)
        m.score_gradients<4>(i, lse[h * p.T + i], nullptr, score);
      else
        m.score_gradients<0>(i, lse[h * p.T + i], nullptr, score);
    }
    if (dtable)
      for (int64_t i = 0; i < p.T * p.Tp; i += kLanes)
        store(dtable + i, load(dtable + i) + load(m.dscores.data() + i));
    if (!dqkv && !dpadding) return;
    m.weigh_keys(p.T);
    scatter(h, 0, 1.0f, dqkv, dpadding);
    m.weigh_queries<false>(p.T, m.out.data());
    scatter(h, 1, p.scale, dqkv, dpadding);
    m.weigh_gradients<false>(p.T, m.out.data());
    scatter(h, 2, 1.0f, dqkv, dpadding);
  }

 private:
  int64_t token(int64_t t) const { return tokens[static_cast<size_t>(t)]; }

  // The head's vectors of the window's tokens in part `part` of a map [N, H, W, parts * C]; null for fillers.
  template <class V>
  auto rows_of(V* map, int64_t parts, int64_t part, int64_t h) const {
    V* image = map ? map + n * p.map.H * p.map.W * parts * p.C + part * p.C + h * p.D : nullptr;
    return [image, at = tokens.data(), stride = parts * p.C](int64_t t) {
      return image && at[t] >= 0 ? image + at[t] * stride : nullptr;
    };
  }
  auto inputs(int64_t part, int64_t h) const {
    return [row = rows_of(qkv, 3, part, h), filler = padding + part * p.C + h * p.D](int64_t t) {
      const E* at = row(t);
      return at ? at : filler;
    };
  }
  void load_head(int64_t h) {
    m.load_keys(p.scale, inputs(1, h), inputs(2, h));
    m.load_queries(p.T, inputs(0, h));
  }
  // Prefetches the head's `parts` vectors of token t of the next window: gathers of scattered 128-byte pieces
  // would wait for the memory.
  void prefetch_next(const E* map, int64_t parts, int64_t h, int64_t t) const {
    int64_t at = next_tokens[static_cast<size_t>(t)];
    if (at < 0) return;
    const E* from = map + (next_n * p.map.H * p.map.W + at) * parts * p.C + h * p.D;
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t d = 0; d < p.D; d += 64 / static_cast<int64_t>(sizeof(E)))
        __builtin_prefetch(from + part * p.C + d, 0, 2);
  }
  // Returns the scores of row i, sixteen keys at a time.
  auto scores_of(int64_t h, int64_t i) const {
    const float *z = m.scores.data() + i * p.Tp, *bias = p.bias.data<float>() + (h * p.T + i) * p.Tp;
    const float *region = other ? other + i * p.Tp : nullptr, *skip = p.mask ? ignored.data() : nullptr;
    return [=](int64_t s) {
      Floats x = load(z + s) + load(bias + s);
      if (region) x += load(region + s);
      if (skip) x += load(skip + s);
      return x;
    };
  }
  void scatter(int64_t h, int64_t part, float factor, E* dqkv, float* dpadding) {
    auto row = rows_of(dqkv, 3, part, h);
    float* sums = dpadding ? dpadding + part * p.C + h * p.D : nullptr;
    for (int64_t t = 0; t < p.T; ++t) {
      for (int64_t d = 0; d < p.D; d += kLanes) {
        Floats g = load(m.out.data() + t * m.Dp + d) * factor;
        if (token(t) >= 0) {
          if (E* to = row(t)) store_some(to + d, g, p.D - d);
        } else if (sums) {
          store_some(sums + d, load_some(sums + d, p.D - d) + g, p.D - d);
        }
      }
    }
  }

  const WindowShape& p;
  HeadMatrices m;
  const E *qkv, *padding;
  int64_t n = 0, next_n = 0;
  std::vector<int64_t> tokens, next_tokens;
  const float* other = nullptr;
  LaneVector<float> ignored, shifts, totals;
};

template <class E>
void forward_typed(const WindowShape& p, const Tensor& qkv, const Tensor& padding, Tensor& y, Tensor& lse) {
  const int64_t heads = p.windows() < kFewWindows ? 1 : p.heads, groups = p.heads / heads;  // of a unit
  parallel_for(p.windows() * groups, 1, [&](int64_t begin, int64_t end) {
    WindowWorker<E> worker(p, qkv.data<E>(), padding.data<E>(), false);
    for (int64_t i = begin, last = (end - 1) / groups; i < end; ++i) {
      const int64_t window = i / groups, first = i % groups * heads;
      if (i == begin || first == 0) worker.begin_window(window, std::min(window + 1, last));
      for (int64_t h = first; h < first + heads; ++h)
        worker.forward(h, y.data<E>(), lse.data<float>() + window * p.heads * p.T);
    }
  });
}

template <class E>
void backward_typed(const WindowShape& p, const Tensor& qkv, const Tensor& padding, const Tensor& lse,
                    const Tensor& dy, Tensor& dqkv, Tensor& dtable, Tensor& dpadding) {
  int64_t parts = std::min(p.windows(), kParts), size = p.heads * p.T * p.Tp;
  Tensor table_sums = dtable.defined() ? Tensor::zeros({parts, size}) : Tensor();
  Tensor padding_sums = dpadding.defined() ? Tensor::zeros({parts, 3 * p.C}) : Tensor();
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    WindowWorker<E> worker(p, qkv.data<E>(), padding.data<E>(), true);
    for (int64_t part = begin; part < end; ++part) {
      float* bias = data_or_null<float>(table_sums, part * size);
      float* fillers = data_or_null<float>(padding_sums, part * 3 * p.C);
      int64_t last = p.windows() * (part + 1) / parts;
      for (int64_t i = p.windows() * part / parts; i < last; ++i) {
        worker.begin_window(i, std::min(i + 1, last - 1));
        for (int64_t h = 0; h < p.heads; ++h)
          worker.backward(h, dy.data<E>(), lse.data<float>() + i * p.heads * p.T, data_or_null<E>(dqkv),
                          bias ? bias + h * p.T * p.Tp : nullptr, fillers);
      }
    }
  });
  if (dtable.defined()) {
    Tensor pairs = Tensor::empty({size});
    sum_to_shape(table_sums, 1, pairs);
    for_each(dtable.numel(),
             FoldTable<float>{pairs.data<float>(), dtable.data<float>(), p.map.window,
                              static_cast<int>(p.side), static_cast<int>(p.heads), static_cast<int>(p.Tp)},
             p.T);
  }
  if (dpadding.defined()) sum_to_shape(padding_sums, 1, dpadding);
}

void forward_cpu(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                 const WindowParams& params, Tensor& y, Tensor& lse) {
  WindowShape p(qkv, table, mask, params);
  dispatch_dtype<float, bf16>(qkv.dtype(), "window_attention",
                              [&]<class E>() { forward_typed<E>(p, qkv, padding, y, lse); });
}

void backward_cpu(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                  const WindowParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                  Tensor& dtable, Tensor& dpadding) {
  WindowShape p(qkv, table, mask, params);
  dispatch_dtype<float, bf16>(qkv.dtype(), "window_attention", [&]<class E>() {
    backward_typed<E>(p, qkv, padding, lse, dy, dqkv, dtable, dpadding);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(window_attention_forward, Device::kCpu, &forward_cpu, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(window_attention_backward, Device::kCpu, &backward_cpu, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
