// Attention for f32 and bf16 values. A head's keys and values are copied to f32, the keys transposed, so that
// the scores of a block of rows are one small matrix product that stays in the cache; softmax runs over
// sixteen keys at a time. In backward one thread owns a head of an image: dk and dv are summed in query order
// on any number of threads.
#include "core/kernels/attention/attention.h"

#include <cmath>
#include <vector>

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

constexpr float kInf = __builtin_inff();
// Without a bias gradient an image is a chunk; a shared bias is summed in at most this many parts.
constexpr int64_t kBiasChunks = 16;

struct AttentionShape {
  int64_t N, Q, S, H, D, Dv;
  int64_t Sp, Dp, Dvp;  // padded to whole vectors
  int64_t rows;         // of a block: scores of about 64 KB, from the shapes only
  int64_t bias_n, bias_h;
  const bool* mask;
  const float* bias;
  AttentionParams params;

  AttentionShape(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_padding_mask,
                 const Tensor& scores_bias, const AttentionParams& p)
      : N(q.dim(0)),
        Q(q.dim(1)),
        S(k.dim(1)),
        H(p.heads),
        D(q.dim(2) / p.heads),
        Dv(v.dim(2) / p.heads),
        params(p) {
    Sp = round_up(S, kLanes);
    Dp = round_up(D, kLanes);
    Dvp = round_up(Dv, kLanes);
    rows = std::clamp<int64_t>(16384 / std::max<int64_t>(Sp, 1) / 6 * 6, 12, 48);
    mask = data_or_null<bool>(key_padding_mask);
    bias = data_or_null<float>(scores_bias);
    bias_n = bias ? scores_bias.dim(0) : 1;
    bias_h = bias ? scores_bias.dim(1) : 1;
  }
  const float* bias_row(int64_t n, int64_t h, int64_t q) const {
    return bias + (((bias_n == 1 ? 0 : n) * bias_h + (bias_h == 1 ? 0 : h)) * Q + q) * S;
  }
};

// count rows of one head (`stride` apart, D long) into [count, Dp], times scale, zeros behind D.
template <class T>
void pack(const T* from, int64_t stride, int64_t count, int64_t D, int64_t Dp, float scale, float* to) {
  for (int64_t i = 0; i < count; ++i, from += stride, to += Dp)
    for (int64_t d = 0; d < D; d += kLanes) store(to + d, load_some(from + d, D - d) * scale);
}
// [S, Dp] -> [D, Sp], zeros behind S.
void transpose(const float* from, int64_t S, int64_t D, int64_t Dp, int64_t Sp, float* to) {
  for (int64_t s0 = 0; s0 < Sp; s0 += kLanes) {
    for (int64_t d = 0; d < D; ++d) {
      float buffer[kLanes];
      for (int64_t s = 0; s < kLanes; ++s) buffer[s] = s0 + s < S ? from[(s0 + s) * Dp + d] : 0.0f;
      std::memcpy(to + d * Sp + s0, buffer, sizeof buffer);
    }
  }
}
template <class T>
void unpack(const float* from, int64_t count, int64_t D, int64_t Dp, float scale, T* to, int64_t stride) {
  for (int64_t i = 0; i < count; ++i, from += Dp, to += stride)
    for (int64_t d = 0; d < D; d += kLanes) store_some(to + d, load(from + d) * scale, D - d);
}

// Room for one head and one block of rows; the vectors are sized once.
template <class T>
struct HeadWorker {
  const AttentionShape& p;
  std::vector<float> keys, keys_t, values, values_t, ignored, queries, scores, out, dscores, dy, factors, dk,
      dv;

  explicit HeadWorker(const AttentionShape& problem) : p(problem) {}

  static float* room(std::vector<float>& v, int64_t count) {
    if (static_cast<int64_t>(v.size()) < count) v.resize(static_cast<size_t>(count));
    return v.data();
  }
  static const T* head(const T* x, int64_t n, int64_t h, int64_t count, int64_t H, int64_t D) {
    return x + (n * count * H + h) * D;
  }

  void load_head(const T* k, const T* v, int64_t n, int64_t h) {
    pack(head(k, n, h, p.S, p.H, p.D), p.H * p.D, p.S, p.D, p.Dp, static_cast<float>(p.params.scale),
         room(keys, p.S * p.Dp));
    transpose(keys.data(), p.S, p.D, p.Dp, p.Sp, room(keys_t, p.D * p.Sp));
    pack(head(v, n, h, p.S, p.H, p.Dv), p.H * p.Dv, p.S, p.Dv, p.Dvp, 1.0f, room(values, p.S * p.Dvp));
    float* skip = room(ignored, p.Sp);
    for (int64_t s = 0; s < p.Sp; ++s) skip[s] = s >= p.S || (p.mask && p.mask[n * p.S + s]) ? -kInf : 0.0f;
  }

  // scores [count, Sp] of rows q0..: scaled products + bias, -inf where ignored.
  void compute_scores(const T* q, int64_t n, int64_t h, int64_t q0, int64_t count) {
    pack(head(q, n, h, p.Q, p.H, p.D) + q0 * p.H * p.D, p.H * p.D, count, p.D, p.Dp, 1.0f,
         room(queries, p.rows * p.Dp));
    room(scores, p.rows * p.Sp);
    small_gemm<false>(count, p.Sp, p.D, queries.data(), p.Dp, 1, keys_t.data(), p.Sp, scores.data(), p.Sp);
    for (int64_t i = 0; i < count; ++i) {
      float* z = scores.data() + i * p.Sp;
      const float* b = p.bias ? p.bias_row(n, h, q0 + i) : nullptr;
      for (int64_t s = 0; s < p.Sp; s += kLanes) {
        Floats x = load(z + s) + load(ignored.data() + s);
        if (b) x += load_some(b + s, p.S - s);
        store(z + s, x);
      }
    }
  }

  const float* dropout_row(int64_t row) {
    float* f = room(factors, p.Sp + 4);
    for (int64_t s = 0; s < p.Sp; s += 4) {
      uint64_t block = static_cast<uint64_t>(row * ((p.S + 3) / 4) + s / 4);
      Philox r = Philox::generate(p.params.key, p.params.call, block);
      float keep = static_cast<float>(1 / (1 - p.params.dropout));
      for (int i = 0; i < 4; ++i)
        f[s + i] = uniform_from_bits(r.x[i]) < static_cast<float>(p.params.dropout) ? 0.0f : keep;
    }
    return f;
  }

  void forward(const T* q, int64_t n, int64_t h, int64_t q0, int64_t count, T* y, float* lse) {
    compute_scores(q, n, h, q0, count);
    room(out, p.rows * p.Dvp);
    for (int64_t i = 0; i < count; ++i) {
      float* z = scores.data() + i * p.Sp;
      Floats top = broadcast(-kInf), total{};
      for (int64_t s = 0; s < p.Sp; s += kLanes) top = max(load(z + s), top);
      float shift = maximum(top);
      if (shift == -kInf) shift = 0;  // nothing to attend to: every weight becomes 0
      for (int64_t s = 0; s < p.Sp; s += kLanes) {
        Floats e = cpu::exp(load(z + s) - shift);
        store(z + s, e);
        total += e;
      }
      float all = sum(total), scale = all == 0 ? 0 : 1 / all;
      lse[(n * p.H + h) * p.Q + q0 + i] = all == 0 ? -kInf : shift + std::log(all);
      const float* f = p.params.dropout > 0 ? dropout_row((n * p.H + h) * p.Q + q0 + i) : nullptr;
      for (int64_t s = 0; s < p.Sp; s += kLanes)
        store(z + s, f ? load(z + s) * scale * load(f + s) : load(z + s) * scale);
    }
    small_gemm<false>(count, p.Dvp, p.S, scores.data(), p.Sp, 1, values.data(), p.Dvp, out.data(), p.Dvp);
    unpack(out.data(), count, p.Dv, p.Dvp, 1.0f, y + ((n * p.Q + q0) * p.H + h) * p.Dv, p.H * p.Dv);
  }

  // Everything of head h of image n; null outputs are skipped. dbias is [Q, S] of this head: written, or
  // added to when `add_bias`.
  void backward(const T* q, const T* k, const T* v, const float* lse, const T* gradient, int64_t n, int64_t h,
                T* dq_out, T* dk_out, T* dv_out, float* dbias, bool add_bias) {
    load_head(k, v, n, h);
    transpose(values.data(), p.S, p.Dv, p.Dvp, p.Sp, room(values_t, p.Dv * p.Sp));
    if (dk_out) std::fill_n(room(dk, p.S * p.Dp), p.S * p.Dp, 0.0f);
    if (dv_out) std::fill_n(room(dv, p.S * p.Dvp), p.S * p.Dvp, 0.0f);
    room(dscores, p.rows * p.Sp);
    room(dy, p.rows * p.Dvp);
    room(out, p.rows * p.Dp);
    for (int64_t q0 = 0; q0 < p.Q; q0 += p.rows) {
      int64_t count = std::min(p.rows, p.Q - q0);
      compute_scores(q, n, h, q0, count);
      pack(head(gradient, n, h, p.Q, p.H, p.Dv) + q0 * p.H * p.Dv, p.H * p.Dv, count, p.Dv, p.Dvp, 1.0f,
           dy.data());
      small_gemm<false>(count, p.Sp, p.Dv, dy.data(), p.Dvp, 1, values_t.data(), p.Sp, dscores.data(), p.Sp);
      for (int64_t i = 0; i < count; ++i) score_gradient(n, h, q0, i, lse, dbias, add_bias);
      if (dv_out)
        small_gemm<true>(p.S, p.Dvp, count, scores.data(), 1, p.Sp, dy.data(), p.Dvp, dv.data(), p.Dvp);
      if (dk_out)
        small_gemm<true>(p.S, p.Dp, count, dscores.data(), 1, p.Sp, queries.data(), p.Dp, dk.data(), p.Dp);
      if (!dq_out) continue;
      small_gemm<false>(count, p.Dp, p.S, dscores.data(), p.Sp, 1, keys.data(), p.Dp, out.data(), p.Dp);
      unpack(out.data(), count, p.D, p.Dp, 1.0f, dq_out + ((n * p.Q + q0) * p.H + h) * p.D, p.H * p.D);
    }
    float scale = static_cast<float>(p.params.scale);
    if (dk_out) unpack(dk.data(), p.S, p.D, p.Dp, scale, dk_out + (n * p.S * p.H + h) * p.D, p.H * p.D);
    if (dv_out) unpack(dv.data(), p.S, p.Dv, p.Dvp, 1.0f, dv_out + (n * p.S * p.H + h) * p.Dv, p.H * p.Dv);
  }

 private:
  // Row i of the block: scores become the weights that reached the output, dscores the gradients of the
  // scores.
  void score_gradient(int64_t n, int64_t h, int64_t q0, int64_t i, const float* lse, float* dbias,
                      bool add_bias) {
    int64_t row = (n * p.H + h) * p.Q + q0 + i;
    float *z = scores.data() + i * p.Sp, *dz = dscores.data() + i * p.Sp;
    float shift = lse[row] == -kInf ? kInf : lse[row];  // a row without keys: weights 0
    const float* f = p.params.dropout > 0 ? dropout_row(row) : nullptr;
    Floats delta{};
    for (int64_t s = 0; s < p.Sp; s += kLanes) {
      Floats w = cpu::exp(load(z + s) - shift);
      store(z + s, w);
      Floats d = load(dz + s);
      if (f) store(dz + s, d *= load(f + s));
      delta += w * d;
    }
    float total = sum(delta);
    for (int64_t s = 0; s < p.Sp; s += kLanes) {
      Floats w = load(z + s);
      store(dz + s, w * (load(dz + s) - total));
      if (f) store(z + s, w * load(f + s));
    }
    if (!dbias) return;
    float* b = dbias + (q0 + i) * p.S;
    if (!add_bias) {
      std::copy_n(dz, p.S, b);
      return;
    }
    for (int64_t s = 0; s < p.S; ++s) b[s] += dz[s];
  }
};

template <class T>
void forward_typed(const AttentionShape& p, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& y,
                   Tensor& lse) {
  int64_t blocks = ceil_div(p.Q, p.rows), cost = p.rows * p.Sp * (p.D + p.Dv);
  parallel_for(p.N * p.H * blocks, std::max<int64_t>(1, 100000 / std::max<int64_t>(cost, 1)),
               [&](int64_t begin, int64_t end) {
                 HeadWorker<T> worker(p);
                 int64_t loaded = -1;
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t nh = i / blocks, q0 = i % blocks * p.rows;
                   if (nh != loaded) worker.load_head(k.data<T>(), v.data<T>(), nh / p.H, nh % p.H);
                   loaded = nh;
                   worker.forward(q.data<T>(), nh / p.H, nh % p.H, q0, std::min(p.rows, p.Q - q0),
                                  y.data<T>(), lse.data<float>());
                 }
               });
}

// dbias[nb, hb] = sum of parts[part, h] over the images and heads that share it.
void sum_bias_parts(const AttentionShape& p, const Tensor& parts, Tensor& dbias) {
  int64_t QS = p.Q * p.S, part_count = parts.dim(0);
  parallel_for(dbias.dim(0) * dbias.dim(1) * p.Q, std::max<int64_t>(1, 16384 / std::max<int64_t>(p.S, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t qi = i % p.Q, hb = i / p.Q % p.bias_h, nb = i / p.Q / p.bias_h;
                   float* to = dbias.data<float>() + i * p.S;
                   std::fill_n(to, p.S, 0.0f);
                   for (int64_t n = nb; n < (p.bias_n == 1 ? part_count : nb + 1); ++n) {
                     for (int64_t h = hb; h < (p.bias_h == 1 ? p.H : hb + 1); ++h) {
                       const float* from = parts.data<float>() + (n * p.H + h) * QS + qi * p.S;
                       for (int64_t s = 0; s < p.S; ++s) to[s] += from[s];
                     }
                   }
                 }
               });
}

template <class T>
void backward_typed(const AttentionShape& p, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& lse, const Tensor& dy, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias) {
  // Parts of the bias gradient: [chunks of images, H, Q, S], each with one owner. A bias of every image and
  // head is its own part.
  bool shared = dbias.defined() && (p.bias_n < p.N || p.bias_h < p.H);
  int64_t chunks = shared && p.bias_n == 1 ? std::min(p.N, kBiasChunks) : p.N;
  Tensor parts = shared ? Tensor::zeros({chunks, p.H, p.Q, p.S}) : dbias;
  int64_t cost = p.Q * p.Sp * (p.D + p.Dv) * 3;
  parallel_for(chunks * p.H, std::max<int64_t>(1, 100000 / std::max<int64_t>(cost, 1)),
               [&](int64_t begin, int64_t end) {
                 HeadWorker<T> worker(p);
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t chunk = i / p.H, h = i % p.H;
                   float* part = data_or_null<float>(parts, i * p.Q * p.S);
                   for (int64_t n = p.N * chunk / chunks; n < p.N * (chunk + 1) / chunks; ++n)
                     worker.backward(q.data<T>(), k.data<T>(), v.data<T>(), lse.data<float>(), dy.data<T>(),
                                     n, h, data_or_null<T>(dq), data_or_null<T>(dk), data_or_null<T>(dv),
                                     part, shared);
                 }
               });
  if (shared) sum_bias_parts(p, parts, dbias);
}

void forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                 const AttentionParams& params, Tensor& y, Tensor& lse) {
  AttentionShape p(q, k, v, mask, bias, params);
  dispatch_dtype<float, bf16>(q.dtype(), "attention",
                              [&]<class T>() { forward_typed<T>(p, q, k, v, y, lse); });
}

void backward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& bias,
                  const AttentionParams& params, const Tensor& lse, const Tensor& dy, Tensor& dq, Tensor& dk,
                  Tensor& dv, Tensor& dbias) {
  AttentionShape p(q, k, v, mask, bias, params);
  dispatch_dtype<float, bf16>(q.dtype(), "attention",
                              [&]<class T>() { backward_typed<T>(p, q, k, v, lse, dy, dq, dk, dv, dbias); });
}

SACCADE_REGISTER_TUNED_KERNEL(attention_forward, Device::kCpu, &forward_cpu, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(attention_backward, Device::kCpu, &backward_cpu, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
