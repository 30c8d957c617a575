// Attention for f32 and bf16 values (see attention_cpu.h). In backward one thread owns a head of an image: dk
// and dv are summed in query order for any number of threads.
#include "core/kernels/attention/attention_cpu.h"

#include <cmath>

#include "core/kernels/attention/attention.h"
#include "core/kernels/reduce/reduce.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

// Without a bias gradient an image is a chunk; a shared bias is summed in at most this many parts.
constexpr int64_t kBiasChunks = 16;

struct AttentionShape {
  int64_t N, Q, S, H, D, Dv;
  int64_t rows;  // per block: scores of about 64 KB, from the shapes only
  int64_t bias_n, bias_h;
  const bool* mask;
  const float* bias;
  float scale;
  Dropout dropout;

  AttentionShape(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                 const Tensor& scores_bias, const AttentionParams& p)
      : N(q.dim(0)),
        Q(q.dim(1)),
        S(k.dim(1)),
        H(p.heads),
        D(q.dim(2) / p.heads),
        Dv(v.dim(2) / p.heads),
        rows(std::clamp<int64_t>(16384 / std::max<int64_t>(round_up(S, kLanes), 1) / 6 * 6, 12, 48)),
        bias_n(scores_bias.defined() ? scores_bias.dim(0) : 1),
        bias_h(scores_bias.defined() ? scores_bias.dim(1) : 1),
        mask(data_or_null<bool>(key_padding_mask)),
        bias(data_or_null<float>(scores_bias)),
        scale(static_cast<float>(p.scale)),
        dropout(p) {}
  const float* bias_row(int64_t n, int64_t h, int64_t q) const {
    return bias + (((bias_n == 1 ? 0 : n) * bias_h + (bias_h == 1 ? 0 : h)) * Q + q) * S;
  }
  // The cost of a row of scores with its gradients; for the grain of the loops.
  int64_t row_cost() const { return round_up(S, kLanes) * (D + Dv); }
};

template <class T>
struct HeadWorker {
  const AttentionShape& p;
  HeadMatrices m;
  LaneVector<float> ignored, kept, dk, dv;
  int64_t n = 0, h = 0;

  HeadWorker(const AttentionShape& shape, bool backward)
      : p(shape),
        m(p.rows, p.S, p.D, p.Dv, backward),
        ignored(static_cast<size_t>(m.Sp)),
        kept(ignored.size()) {}

  // Returns the head's rows of x [N, count, H, size] from `first` on.
  template <class E>
  auto rows_of(E* x, int64_t count, int64_t size, int64_t first = 0) const {
    E* at = x + ((n * count + first) * p.H + h) * size;
    return [at, stride = p.H * size](int64_t i) { return at + i * stride; };
  }

  void load_head(const T* k, const T* v, int64_t image, int64_t head) {
    n = image, h = head;
    m.load_keys(p.scale, rows_of(k, p.S, p.D), rows_of(v, p.S, p.Dv));
    for (int64_t s = 0; s < m.Sp; ++s)
      ignored[static_cast<size_t>(s)] = s >= p.S || (p.mask && p.mask[n * p.S + s]) ? -kInfinity : 0.0f;
  }
  // Returns the scores of row i of the block from q0 on: scaled products + bias, -inf for ignored keys.
  auto scores_of(int64_t q0, int64_t i) const {
    const float *z = m.scores.data() + i * m.Sp, *skip = ignored.data();
    const float* bias = p.bias ? p.bias_row(n, h, q0 + i) : nullptr;
    return [=, S = p.S](int64_t s) {
      Floats x = load(z + s) + load(skip + s);
      if (bias) x += load_some(bias + s, S - s);
      return x;
    };
  }
  int64_t row(int64_t q) const { return (n * p.H + h) * p.Q + q; }
  // Returns the dropout factors of a row's weights, or null without dropout.
  const float* dropout_row(int64_t q) {
    if (p.dropout.probability == 0) return nullptr;
    const Dropout dropout = p.dropout;  // a copy, since GCC must assume that the stores change p
    float* to = kept.data();
    for (int64_t s = 0; s < m.Sp; s += 4) {
      Philox random = dropout.draw(row(q), s / 4, p.S);
      for (int64_t i = 0; i < 4; ++i) to[s + i] = dropout.drops(random.x[i]) ? 0.0f : dropout.factor;
    }
    return kept.data();
  }

  void forward(const T* q, int64_t q0, T* y, float* lse) {
    int64_t count = std::min(p.rows, p.Q - q0);
    m.load_queries(count, rows_of(q, p.Q, p.D, q0));
    for (int64_t i = 0; i < count; ++i) {
      auto [shift, total] = m.exponentials<0>(i, scores_of(q0, i));
      float scale = total == 0 ? 0 : 1 / total;
      lse[row(q0 + i)] = total == 0 ? -kInfinity : shift + std::log(total);
      const float* f = dropout_row(q0 + i);
      float* z = m.scores.data() + i * m.Sp;
      for (int64_t s = 0; s < m.Sp; s += kLanes)
        store(z + s, f ? load(z + s) * scale * load(f + s) : load(z + s) * scale);
    }
    m.weigh_values(count);
    store_rows(m.out.data(), count, p.Dv, 1.0f, rows_of(y, p.Q, p.Dv, q0));
  }

  // Backward of the loaded head; null outputs are skipped. dbias is [Q, S] of this head: it is written, or
  // added to if `add_bias`.
  void backward(const T* q, const float* lse, const T* gradient, T* dq_all, T* dk_all, T* dv_all,
                float* dbias, bool add_bias) {
    dk.assign(dk_all ? static_cast<size_t>(p.S * m.Dp) : 0, 0.0f);
    dv.assign(dv_all ? static_cast<size_t>(p.S * m.Dvp) : 0, 0.0f);
    for (int64_t q0 = 0; q0 < p.Q; q0 += p.rows) {
      int64_t count = std::min(p.rows, p.Q - q0);
      m.load_queries(count, rows_of(q, p.Q, p.D, q0));
      m.load_gradients(count, rows_of(gradient, p.Q, p.Dv, q0));
      for (int64_t i = 0; i < count; ++i) {
        m.score_gradients<0>(i, lse[row(q0 + i)], dropout_row(q0 + i), scores_of(q0, i));
        if (!dbias) continue;
        const float* from = m.dscores.data() + i * m.Sp;
        float* to = dbias + (q0 + i) * p.S;
        for (int64_t s = 0; s < p.S; ++s) to[s] = add_bias ? to[s] + from[s] : from[s];
      }
      if (dv_all) m.weigh_gradients<true>(count, dv.data());
      if (dk_all) m.weigh_queries<true>(count, dk.data());
      if (!dq_all) continue;
      m.weigh_keys(count);
      store_rows(m.out.data(), count, p.D, 1.0f, rows_of(dq_all, p.Q, p.D, q0));
    }
    if (dk_all) store_rows(dk.data(), p.S, p.D, p.scale, rows_of(dk_all, p.S, p.D));
    if (dv_all) store_rows(dv.data(), p.S, p.Dv, 1.0f, rows_of(dv_all, p.S, p.Dv));
  }
};

template <class T>
void forward_typed(const AttentionShape& p, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& y,
                   Tensor& lse) {
  int64_t blocks = ceil_div(p.Q, p.rows);
  parallel_for(p.N * p.H * blocks, std::max<int64_t>(1, 100000 / std::max<int64_t>(p.rows * p.row_cost(), 1)),
               [&](int64_t begin, int64_t end) {
                 HeadWorker<T> worker(p, false);
                 for (int64_t i = begin; i < end; ++i) {
                   if (i == begin || i % blocks == 0)
                     worker.load_head(k.data<T>(), v.data<T>(), i / blocks / p.H, i / blocks % p.H);
                   worker.forward(q.data<T>(), i % blocks * p.rows, y.data<T>(), lse.data<float>());
                 }
               });
}

template <class T>
void backward_typed(const AttentionShape& p, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& lse, const Tensor& dy, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias) {
  // Parts of the bias gradient: [chunks of images, H, Q, S], each with one owner. If every image and head has
  // a bias, each is its own part.
  bool shared = dbias.defined() && (p.bias_n < p.N || p.bias_h < p.H);
  int64_t chunks = shared && p.bias_n == 1 ? std::min(p.N, kBiasChunks) : p.N;
  Tensor parts = shared ? Tensor::zeros({chunks, p.H, p.Q, p.S}) : dbias;
  int64_t cost = p.Q * p.row_cost() * 3;
  parallel_for(chunks * p.H, std::max<int64_t>(1, 100000 / std::max<int64_t>(cost, 1)),
               [&](int64_t begin, int64_t end) {
                 HeadWorker<T> worker(p, true);
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t chunk = i / p.H;
                   for (int64_t n = p.N * chunk / chunks; n < p.N * (chunk + 1) / chunks; ++n) {
                     worker.load_head(k.data<T>(), v.data<T>(), n, i % p.H);
                     worker.backward(q.data<T>(), lse.data<float>(), dy.data<T>(), data_or_null<T>(dq),
                                     data_or_null<T>(dk), data_or_null<T>(dv),
                                     data_or_null<float>(parts, i * p.Q * p.S), shared);
                   }
                 }
               });
  // Adds up the images and heads that share a matrix.
  if (shared) sum_to_shape(parts, 1, dbias);
}

void forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                 const AttentionParams& params, Tensor& y, Tensor& lse) {
  AttentionShape p(q, k, v, mask, bias, params);
  dispatch_dtype<float, bf16>(q.dtype(), "attention",
                              [&]<class T>() { forward_typed<T>(p, q, k, v, y, lse); });
}

void backward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                  const AttentionParams& params, const Tensor& lse, const Tensor&, const Tensor& dy,
                  Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias) {
  AttentionShape p(q, k, v, mask, bias, params);
  dispatch_dtype<float, bf16>(q.dtype(), "attention",
                              [&]<class T>() { backward_typed<T>(p, q, k, v, lse, dy, dq, dk, dv, dbias); });
}

SACCADE_REGISTER_TUNED_KERNEL(attention_forward, Device::kCpu, &forward_cpu, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(attention_backward, Device::kCpu, &backward_cpu, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
