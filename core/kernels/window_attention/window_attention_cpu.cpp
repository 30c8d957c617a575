// Window attention for f32 and bf16. A head's tokens of one window are gathered straight from the map into
// small f32 matrices that stay in the cache; bias and region mask are laid out once a call as rows of scores.
// One thread owns a window with all its heads; the sums over windows (table, fillers) are cut into parts by
// the shape only.
#include "core/kernels/window_attention/window_attention.h"

#include <cmath>
#include <vector>

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/runtime/parallel.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

constexpr float kInf = __builtin_inff();
constexpr int64_t kParts = 16;  // of the sums over windows, at most

struct WindowShape {
  int64_t N, C, heads, D, T, Dp, Tp;  // T tokens a window; Dp, Tp: padded to whole vectors
  WindowGeometry map;
  float scale;
  const bool* mask;
  int64_t side = 0;          // of the table
  std::vector<float> bias;   // [heads, T, Tp]; -inf behind the last key
  std::vector<float> other;  // [3, T, Tp]: what a window at the lower, right or both borders adds

  WindowShape(const Tensor& qkv, const Tensor& table, const Tensor& key_mask, const WindowParams& p)
      : N(qkv.dim(0)),
        C(qkv.dim(3) / 3),
        heads(p.heads),
        D(C / p.heads),
        T(p.window * p.window),
        Dp(round_up(D, kLanes)),
        Tp(round_up(T, kLanes)),
        map(qkv.dim(1), qkv.dim(2), p),
        scale(static_cast<float>(p.scale)),
        mask(data_or_null<bool>(key_mask)) {
    const float* rows = nullptr;
    if (table.defined()) {
      for (side = 1; side * side < table.dim(0);) side += 2;
      rows = table.data<float>();
    }
    bias.assign(static_cast<size_t>(heads * T * Tp), -kInf);
    parallel_for(heads * T, std::max<int64_t>(1, 16384 / T), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t k = 0; k < T; ++k)
          bias[static_cast<size_t>(i * Tp + k)] = rows ? rows[table_row(i % T, k) * heads + i / T] : 0.0f;
    });
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
  bool below(int64_t t) const { return t / map.window >= map.window - map.shift; }
  bool right(int64_t t) const { return t % map.window >= map.window - map.shift; }
  int64_t table_row(int64_t q, int64_t k) const {
    int64_t dy = q / map.window - k / map.window + side / 2, dx = q % map.window - k % map.window + side / 2;
    return dy * side + dx;
  }
  int64_t windows() const { return N * map.count(); }
};

// The transpose of sixteen vectors: each round rotates the eight bits of an element's place by one.
void transpose(Floats (&x)[kLanes]) {
  for (int round = 0; round < 4; ++round) {
    Floats y[kLanes];
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = interleave_low(x[i], x[i + 8]);
      y[2 * i + 1] = interleave_high(x[i], x[i + 8]);
    }
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}
// [Tp, Dp] -> [Dp, Tp]
void transpose(const float* from, int64_t Tp, int64_t Dp, float* to) {
  for (int64_t t = 0; t < Tp; t += kLanes) {
    for (int64_t d = 0; d < Dp; d += kLanes) {
      Floats x[kLanes];
      for (int i = 0; i < kLanes; ++i) x[i] = load(from + (t + i) * Dp + d);
      transpose(x);
      for (int i = 0; i < kLanes; ++i) store(to + (d + i) * Tp + t, x[i]);
    }
  }
}

// Room for one head of one window. The rows behind T are zero and stay so.
template <class E>
class WindowWorker {
 public:
  WindowWorker(const WindowShape& problem, const E* qkv_data, const E* padding_data)
      : p(problem),
        qkv(qkv_data),
        padding(padding_data),
        tokens(static_cast<size_t>(p.T)),
        next_tokens(tokens) {
    for (auto* m : {&q, &k, &v, &k_t, &v_t, &dy, &out}) m->assign(static_cast<size_t>(p.Tp * p.Dp), 0.0f);
    for (auto* m : {&shifts, &totals}) m->assign(static_cast<size_t>(p.T), 0.0f);
    for (auto* m : {&scores, &dscores}) m->assign(static_cast<size_t>(p.T * p.Tp), 0.0f);
  }

  // `next` is the window after this one; its tokens are fetched into the cache meanwhile.
  void begin_window(int64_t window, int64_t next) {
    n = window / p.map.count();
    w = window % p.map.count();
    next_n = next / p.map.count();
    for (int64_t t = 0; t < p.T; ++t) {
      tokens[static_cast<size_t>(t)] = p.map.token(w, t);
      next_tokens[static_cast<size_t>(t)] = p.map.token(next % p.map.count(), t);
    }
    other = nullptr;
    if (int64_t border = p.map.border(w)) other = p.other.data() + (border - 1) * p.T * p.Tp;
    if (!p.mask) return;
    ignored.assign(static_cast<size_t>(p.Tp), 0.0f);
    for (int64_t t = 0; t < p.T; ++t)
      if (token(t) >= 0 && p.mask[n * p.map.H * p.map.W + token(t)]) ignored[static_cast<size_t>(t)] = -kInf;
  }

  void forward(int64_t h, E* y, float* lse) {
    compute_products(h);
    gather(h, 2, 1.0f, v);
    if (p.Tp == 4 * kLanes)
      exponentials<4>(h);
    else
      exponentials<0>(h);
    // The rows' sums were at least 1, or 0 where there was no key at all; log turns that into -inf.
    for (int64_t i = 0; i < p.T; ++i)
      lse[h * p.T + i] = shifts[static_cast<size_t>(i)] + math::log(totals[static_cast<size_t>(i)]);
    for (int64_t i = 0; i < p.T; ++i)
      totals[static_cast<size_t>(i)] =
          totals[static_cast<size_t>(i)] == 0 ? 0.0f : 1 / totals[static_cast<size_t>(i)];
    small_gemm<false>(p.T, p.Dp, p.T, scores.data(), p.Tp, 1, v.data(), p.Dp, out.data(), p.Dp);
    E* image = y + n * p.map.H * p.map.W * p.C + h * p.D;
    for (int64_t t = 0; t < p.T; ++t) {
      if (token(t) < 0) continue;
      for (int64_t d = 0; d < p.D; d += kLanes)
        store_some(image + token(t) * p.C + d,
                   load(out.data() + t * p.Dp + d) * totals[static_cast<size_t>(t)], p.D - d);
    }
  }

  // dtable [T, Tp] of this head and dpadding [3C] are added to; null outputs are skipped.
  void backward(int64_t h, const E* gradient, const float* lse, E* dqkv, float* dtable, float* dpadding) {
    compute_products(h);
    gather(h, 2, 1.0f, v);
    transpose(v.data(), p.Tp, p.Dp, v_t.data());
    const E* image = gradient + n * p.map.H * p.map.W * p.C + h * p.D;
    for (int64_t t = 0; t < p.T; ++t) {
      for (int64_t d = 0; d < p.D; d += kLanes)
        store(dy.data() + t * p.Dp + d,
              token(t) < 0 ? Floats{} : load_some(image + token(t) * p.C + d, p.D - d));
    }
    small_gemm<false>(p.T, p.Tp, p.Dp, dy.data(), p.Dp, 1, v_t.data(), p.Tp, dscores.data(), p.Tp);
    if (p.Tp == 4 * kLanes)
      score_gradients<4>(h, gradient, lse + h * p.T, dtable);
    else
      score_gradients<0>(h, gradient, lse + h * p.T, dtable);
    if (!dqkv && !dpadding) return;
    // k holds scaled keys, so dq needs no factor; dk gets it on the way out.
    small_gemm<false>(p.T, p.Dp, p.T, dscores.data(), p.Tp, 1, k.data(), p.Dp, out.data(), p.Dp);
    scatter(h, 0, 1.0f, dqkv, dpadding);
    small_gemm<false>(p.T, p.Dp, p.T, dscores.data(), 1, p.Tp, q.data(), p.Dp, out.data(), p.Dp);
    scatter(h, 1, p.scale, dqkv, dpadding);
    small_gemm<false>(p.T, p.Dp, p.T, scores.data(), 1, p.Tp, dy.data(), p.Dp, out.data(), p.Dp);
    scatter(h, 2, 1.0f, dqkv, dpadding);
  }

 private:
  int64_t token(int64_t t) const { return tokens[static_cast<size_t>(t)]; }

  // The head's `parts` vectors of token t of the next window: a gather of 128 bytes here and there would wait
  // for the memory.
  void prefetch_next(const E* map, int64_t parts, int64_t h, int64_t t) const {
    int64_t at = next_tokens[static_cast<size_t>(t)];
    if (at < 0) return;
    const E* from = map + (next_n * p.map.H * p.map.W + at) * parts * p.C + h * p.D;
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t d = 0; d < p.D; d += 64 / static_cast<int64_t>(sizeof(E)))
        __builtin_prefetch(from + part * p.C + d, 0, 2);
  }

  void gather(int64_t h, int64_t part, float factor, std::vector<float>& to) {
    const E* image = qkv + n * p.map.H * p.map.W * 3 * p.C;
    int64_t first = part * p.C + h * p.D;
    for (int64_t t = 0; t < p.T; ++t) {
      const E* from = (token(t) < 0 ? padding : image + token(t) * 3 * p.C) + first;
      for (int64_t d = 0; d < p.D; d += kLanes)
        store(to.data() + t * p.Dp + d, load_some(from + d, p.D - d) * factor);
    }
  }
  void scatter(int64_t h, int64_t part, float factor, E* dqkv, float* dpadding) {
    int64_t first = part * p.C + h * p.D;
    E* image = dqkv ? dqkv + n * p.map.H * p.map.W * 3 * p.C + first : nullptr;
    for (int64_t t = 0; t < p.T; ++t) {
      for (int64_t d = 0; d < p.D; d += kLanes) {
        Floats g = load(out.data() + t * p.Dp + d) * factor;
        if (token(t) >= 0) {
          if (image) store_some(image + token(t) * 3 * p.C + d, g, p.D - d);
        } else if (dpadding) {
          float* sum_at = dpadding + first + d;
          store_some(sum_at, load_some(sum_at, p.D - d) + g, p.D - d);
        }
      }
    }
  }
  // Leaves q, the scaled k and its transpose, and their products in scores.
  void compute_products(int64_t h) {
    gather(h, 0, 1.0f, q);
    gather(h, 1, p.scale, k);
    transpose(k.data(), p.Tp, p.Dp, k_t.data());
    small_gemm<false>(p.T, p.Tp, p.Dp, q.data(), p.Dp, 1, k_t.data(), p.Tp, scores.data(), p.Tp);
  }
  // The score of sixteen keys: at = row * Tp + first key.
  Floats score(const float* bias, int64_t at) const {
    Floats z = load(scores.data() + at) + load(bias + at);
    if (other) z += load(other + at);
    if (p.mask) z += load(ignored.data() + at % p.Tp);
    return z;
  }

  // scores become exp(score - shift), a row's largest score being its shift. kV: vectors a row if known, so
  // that they stay in registers.
  template <int kV>
  void exponentials(int64_t h) {
    const float* bias = p.bias.data() + h * p.T * p.Tp;
    const int64_t vectors = kV > 0 ? kV : p.Tp / kLanes;
    for (int64_t i = 0; i < p.T; ++i) {
      prefetch_next(qkv, 3, h, i);
      float* z = scores.data() + i * p.Tp;
      Floats x[kV > 0 ? kV : 1], top = broadcast(-kInf), total{};
      for (int64_t j = 0; j < vectors; ++j) {
        Floats s = score(bias, i * p.Tp + j * kLanes);
        top = max(s, top);
        if constexpr (kV > 0)
          x[j] = s;
        else
          store(z + j * kLanes, s);
      }
      float shift = maximum(top);
      if (shift == -kInf) shift = 0;  // no key at all: every weight becomes 0
      for (int64_t j = 0; j < vectors; ++j) {
        Floats e = cpu::exp((kV > 0 ? x[kV > 0 ? j : 0] : load(z + j * kLanes)) - shift);
        store(z + j * kLanes, e);
        total += e;
      }
      shifts[static_cast<size_t>(i)] = shift;
      totals[static_cast<size_t>(i)] = sum(total);
    }
  }
  // scores become the weights, dscores (the gradients of the weights) the gradients of the scores.
  template <int kV>
  void score_gradients(int64_t h, const E* gradient, const float* lse, float* dtable) {
    const float* bias = p.bias.data() + h * p.T * p.Tp;
    const int64_t vectors = kV > 0 ? kV : p.Tp / kLanes;
    for (int64_t i = 0; i < p.T; ++i) {
      prefetch_next(qkv, 3, h, i);
      prefetch_next(gradient, 1, h, i);
      float *z = scores.data() + i * p.Tp, *dz = dscores.data() + i * p.Tp;
      float shift = lse[i] == -kInf ? kInf : lse[i];
      Floats x[kV > 0 ? kV : 1], delta{};
      for (int64_t j = 0; j < vectors; ++j) {
        Floats weight = cpu::exp(score(bias, i * p.Tp + j * kLanes) - shift);
        store(z + j * kLanes, weight);
        delta += weight * load(dz + j * kLanes);
        if constexpr (kV > 0) x[j] = weight;
      }
      float total = sum(delta);
      for (int64_t j = 0; j < vectors; ++j) {
        Floats weight = kV > 0 ? x[kV > 0 ? j : 0] : load(z + j * kLanes);
        Floats d = weight * (load(dz + j * kLanes) - total);
        store(dz + j * kLanes, d);
        if (!dtable) continue;
        float* sum_at = dtable + i * p.Tp + j * kLanes;
        store(sum_at, load(sum_at) + d);
      }
    }
  }

  const WindowShape& p;
  const E *qkv, *padding;
  int64_t n = 0, w = 0, next_n = 0;
  std::vector<int64_t> tokens, next_tokens;
  const float* other = nullptr;
  std::vector<float> q, k, v, k_t, v_t, dy, out, scores, dscores, ignored, shifts, totals;
};

template <class E>
void forward_typed(const WindowShape& p, const Tensor& qkv, const Tensor& padding, Tensor& y, Tensor& lse) {
  parallel_for(p.windows(), 1, [&](int64_t begin, int64_t end) {
    WindowWorker<E> worker(p, qkv.data<E>(), padding.data<E>());
    for (int64_t i = begin; i < end; ++i) {
      worker.begin_window(i, std::min(i + 1, end - 1));
      for (int64_t h = 0; h < p.heads; ++h)
        worker.forward(h, y.data<E>(), lse.data<float>() + i * p.heads * p.T);
    }
  });
}

// dtable [rows, heads] from the sums of score gradients sums [parts, heads, T, Tp].
void sum_table(const WindowShape& p, Tensor& sums, int64_t parts, Tensor& dtable) {
  int64_t size = p.T * p.Tp;
  auto* rows = dtable.data<float>();
  std::fill_n(rows, dtable.numel(), 0.0f);
  parallel_for(p.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      float* total = sums.data<float>() + h * size;
      for (int64_t part = 1; part < parts; ++part) {
        const float* from = total + part * p.heads * size;
        for (int64_t i = 0; i < size; i += kLanes) store(total + i, load(total + i) + load(from + i));
      }
      for (int64_t q = 0; q < p.T; ++q)
        for (int64_t k = 0; k < p.T; ++k) rows[p.table_row(q, k) * p.heads + h] += total[q * p.Tp + k];
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
    WindowWorker<E> worker(p, qkv.data<E>(), padding.data<E>());
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
  if (dtable.defined()) sum_table(p, table_sums, parts, dtable);
  if (!dpadding.defined()) return;
  auto* to = dpadding.data<float>();
  std::fill_n(to, 3 * p.C, 0.0f);
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t c = 0; c < 3 * p.C; ++c) to[c] += padding_sums.data<float>()[part * 3 * p.C + c];
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
