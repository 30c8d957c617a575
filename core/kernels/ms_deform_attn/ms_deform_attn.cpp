// Single-source deformable attention: one index owns what it writes, so there are no atomics and no order to
// depend on.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "core/kernels/common/bilinear.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int kChannels = 16;  // accumulated at a time

// The arithmetic that all functors share. T: values, A: coordinates and sums.
template <class T, class A = acc_t<T>>
struct DeformInputs {
  const T* value;
  const A *reference, *offsets, *logits;
  FeatureLevels levels;
  int64_t N, S, M, D, Q, P, K;  // K = L * P
  int R;

  static DeformInputs make(const Tensor& value, const Tensor& reference, const Tensor& offsets,
                           const Tensor& logits, const FeatureLevels& levels) {
    DeformInputs p;
    p.value = data_or_null<T>(value);
    p.reference = reference.data<A>();
    p.offsets = offsets.data<A>();
    p.logits = logits.data<A>();
    p.levels = levels;
    p.N = offsets.dim(0);
    p.Q = offsets.dim(1);
    p.M = offsets.dim(2);
    p.P = offsets.dim(4);
    p.K = levels.size() * p.P;
    p.S = levels.tokens();
    p.D = value.defined() ? value.dim(3) : 0;
    p.R = static_cast<int>(reference.dim(3));
    return p;
  }
  // nq = n * Q + q, row = nq * M + m
  SACCADE_HD const A* reference_of(int64_t nq, int l) const {
    return reference + (nq * levels.size() + l) * R;
  }
  // Location in the level, normalised: out[0] = x, out[1] = y.
  SACCADE_HD void locate(int64_t row, int l, int64_t p, A* out) const {
    const A* ref = reference_of(row / M, l);
    const A* offset = offsets + ((row * levels.size() + l) * P + p) * 2;
    A scale_x = R == 2 ? A(1) / static_cast<A>(levels[l].width) : ref[2] * A(0.5) / static_cast<A>(P);
    A scale_y = R == 2 ? A(1) / static_cast<A>(levels[l].height) : ref[3] * A(0.5) / static_cast<A>(P);
    out[0] = ref[0] + offset[0] * scale_x;
    out[1] = ref[1] + offset[1] * scale_y;
  }
  SACCADE_HD Bilinear<A> sample(int64_t row, int l, int64_t p) const {
    A at[2];
    locate(row, l, p, at);
    A w = static_cast<A>(levels[l].width), h = static_cast<A>(levels[l].height);
    return Bilinear<A>::at(at[0] * w - A(0.5), at[1] * h - A(0.5), levels[l].height, levels[l].width);
  }
  // Softmax of one row: weight j = exp(logit j - shift) * scale.
  SACCADE_HD void softmax(int64_t row, A& shift, A& scale) const {
    const A* z = logits + row * K;
    A sum = 0;
    shift = z[0];
    for (int64_t j = 1; j < K; ++j) shift = z[j] > shift ? z[j] : shift;
    for (int64_t j = 0; j < K; ++j) sum += std::exp(z[j] - shift);
    scale = 1 / sum;
  }
  // The vector of head m at a cell of level l of image n.
  SACCADE_HD int64_t value_offset(int64_t n, int l, int64_t cell, int64_t m) const {
    return ((n * S + levels.start(l) + cell) * M + m) * D;
  }
};

template <class T, class A = acc_t<T>>
struct DeformForward {  // i = (n * Q + q) * M + m
  DeformInputs<T> p;
  T* y;
  SACCADE_HD void operator()(int64_t row) const {
    int64_t n = row / p.M / p.Q, m = row % p.M;
    A shift, scale;
    p.softmax(row, shift, scale);
    for (int64_t d0 = 0; d0 < p.D; d0 += kChannels) {
      int64_t count = p.D - d0 < kChannels ? p.D - d0 : kChannels;
      A sum[kChannels] = {};
      for (int l = 0; l < p.levels.size(); ++l) {
        for (int64_t k = 0; k < p.P; ++k) {
          Bilinear<A> b = p.sample(row, l, k);
          A attention = std::exp(p.logits[row * p.K + l * p.P + k] - shift) * scale;
          for (int c = 0; c < 4; ++c) {
            if (b.cell[c] < 0) continue;
            const T* v = p.value + p.value_offset(n, l, b.cell[c], m) + d0;
            A w = b.weight[c] * attention;
            for (int64_t d = 0; d < count; ++d) sum[d] += w * static_cast<A>(v[d]);
          }
        }
      }
      for (int64_t d = 0; d < count; ++d) y[row * p.D + d0 + d] = static_cast<T>(sum[d]);
    }
  }
};

// Gradients of logits, offsets and (per head, summed later) reference points.
template <class T, class A = acc_t<T>>
struct PointGradients {  // i = (n * Q + q) * M + m
  DeformInputs<T> p;
  const T* dy;
  A *doffsets, *dlogits, *dreference;  // may be null; dreference [N * Q * M, L, R]
  SACCADE_HD void operator()(int64_t row) const {
    int64_t n = row / p.M / p.Q, m = row % p.M;
    const T* g = dy + row * p.D;
    A shift, scale, delta = 0;  // delta: sum over j of weight j * d(result)/d(weight j)
    p.softmax(row, shift, scale);
    for (int l = 0; l < p.levels.size(); ++l) {
      A w = static_cast<A>(p.levels[l].width), h = static_cast<A>(p.levels[l].height);
      const A* ref = p.reference_of(row / p.M, l);
      A dref[4] = {};
      for (int64_t k = 0; k < p.P; ++k) {
        int64_t j = row * p.K + l * p.P + k;
        Bilinear<A> b = p.sample(row, l, k);
        A attention = std::exp(p.logits[j] - shift) * scale;
        A dot[4] = {}, sampled = 0;
        for (int c = 0; c < 4; ++c) {
          if (b.cell[c] < 0) continue;
          const T* v = p.value + p.value_offset(n, l, b.cell[c], m);
          for (int64_t d = 0; d < p.D; ++d) dot[c] += static_cast<A>(g[d]) * static_cast<A>(v[d]);
          sampled += b.weight[c] * dot[c];
        }
        delta += attention * sampled;
        if (dlogits) dlogits[j] = sampled;
        A gx = attention * w * b.slope_x(dot),
          gy = attention * h * b.slope_y(dot);  // by the normalised location
        A half = A(0.5) / static_cast<A>(p.P);
        if (doffsets) {
          doffsets[2 * j] = gx * (p.R == 2 ? 1 / w : ref[2] * half);
          doffsets[2 * j + 1] = gy * (p.R == 2 ? 1 / h : ref[3] * half);
        }
        dref[0] += gx;
        dref[1] += gy;
        if (p.R == 4) {
          dref[2] += gx * p.offsets[2 * j] * half;
          dref[3] += gy * p.offsets[2 * j + 1] * half;
        }
      }
      if (dreference) {
        for (int r = 0; r < p.R; ++r) dreference[(row * p.levels.size() + l) * p.R + r] = dref[r];
      }
    }
    if (!dlogits) return;
    for (int64_t j = row * p.K; j < (row + 1) * p.K; ++j)
      dlogits[j] = std::exp(p.logits[j] - shift) * scale * (dlogits[j] - delta);
  }
};

template <class A>
struct SumHeads {  // i over [N * Q, L * R]
  const A* x;      // [N * Q, M, L * R]
  A* y;
  int64_t M, LR;
  SACCADE_HD void operator()(int64_t i) const {
    A sum = 0;
    for (int64_t m = 0; m < M; ++m) sum += x[(i / LR * M + m) * LR + i % LR];
    y[i] = sum;
  }
};

// i = (n * M + m) * blocks + block owns its channels of head m in every token of image n, and adds the
// queries in order.
template <class T, class A = acc_t<T>>
struct ValueGradient {
  DeformInputs<T> p;
  const T* dy;
  A* dvalue;  // zero
  int64_t blocks;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t n = i / blocks / p.M, m = i / blocks % p.M, d0 = i % blocks * kChannels;
    int64_t count = p.D - d0 < kChannels ? p.D - d0 : kChannels;
    for (int64_t q = 0; q < p.Q; ++q) {
      int64_t row = (n * p.Q + q) * p.M + m;
      const T* g = dy + row * p.D + d0;
      A shift, scale;
      p.softmax(row, shift, scale);
      for (int l = 0; l < p.levels.size(); ++l) {
        for (int64_t k = 0; k < p.P; ++k) {
          Bilinear<A> b = p.sample(row, l, k);
          A attention = std::exp(p.logits[row * p.K + l * p.P + k] - shift) * scale;
          for (int c = 0; c < 4; ++c) {
            if (b.cell[c] < 0) continue;
            A* v = dvalue + p.value_offset(n, l, b.cell[c], m) + d0;
            A w = b.weight[c] * attention;
            for (int64_t d = 0; d < count; ++d) v[d] += w * static_cast<A>(g[d]);
          }
        }
      }
    }
  }
};

void forward_generic(const Tensor& value, const Tensor& reference, const Tensor& offsets,
                     const Tensor& logits, const FeatureLevels& levels, Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_float(value.dtype(), "ms_deform_attn", [&]<class T>() {
    auto p = DeformInputs<T>::make(value, reference, offsets, logits, levels);
    for_each(p.N * p.Q * p.M, DeformForward<T>{p, y.data<T>()}, p.K * p.D * 4);
  });
}

void backward_generic(const Tensor& value, const Tensor& reference, const Tensor& offsets,
                      const Tensor& logits, const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue,
                      Tensor& dreference, Tensor& doffsets, Tensor& dlogits) {
  dispatch_float(value.dtype(), "ms_deform_attn", [&]<class T>() {
    using A = acc_t<T>;
    auto p = DeformInputs<T>::make(value, reference, offsets, logits, levels);
    int64_t rows = p.N * p.Q * p.M, cost = p.K * p.D * 4, LR = levels.size() * p.R;
    Tensor per_head;
    if (dreference.defined())
      per_head =
          Tensor::empty(Shape{p.N, p.Q, p.M, levels.size(), p.R}, reference.dtype(), reference.device());
    if (dreference.defined() || doffsets.defined() || dlogits.defined()) {
      for_each(rows,
               PointGradients<T>{p, dy.data<T>(), data_or_null<A>(doffsets), data_or_null<A>(dlogits),
                                 data_or_null<A>(per_head)},
               cost);
    }
    if (dreference.defined()) {
      for_each(p.N * p.Q * LR, SumHeads<A>{per_head.data<A>(), dreference.data<A>(), p.M, LR}, p.M);
    }
    if (dvalue.defined()) {
      Tensor sum = std::is_same_v<T, A> ? dvalue : Tensor::empty(value.shape(), dtype_of<A>, value.device());
      fill(sum, 0);
      int64_t blocks = ceil_div(p.D, kChannels);
      for_each(p.N * p.M * blocks, ValueGradient<T>{p, dy.data<T>(), sum.data<A>(), blocks},
               p.Q * p.K * kChannels * 4);
      if (!std::is_same_v<T, A>) copy(sum, dvalue);
    }
  });
}

template <class A>
struct Locations {  // i = (n * Q + q) * M + m
  DeformInputs<A> p;
  A *locations, *weights;
  SACCADE_HD void operator()(int64_t row) const {
    A shift, scale;
    p.softmax(row, shift, scale);
    for (int l = 0; l < p.levels.size(); ++l) {
      for (int64_t k = 0; k < p.P; ++k) {
        int64_t j = row * p.K + l * p.P + k;
        p.locate(row, l, k, locations + 2 * j);
        weights[j] = std::exp(p.logits[j] - shift) * scale;
      }
    }
  }
};

void locations_generic(const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                       const FeatureLevels& levels, Tensor& locations, Tensor& weights) {
  if (weights.numel() == 0) return;
  dispatch_dtype<float, double>(logits.dtype(), "ms_deform_locations", [&]<class A>() {
    auto p = DeformInputs<A>::make(Tensor(), reference, offsets, logits, levels);
    for_each(p.N * p.Q * p.M, Locations<A>{p, locations.data<A>(), weights.data<A>()}, p.K * 8);
  });
}

SACCADE_REGISTER_KERNEL(ms_deform_attn_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(ms_deform_attn_backward, &backward_generic);
SACCADE_REGISTER_KERNEL(ms_deform_locations, &locations_generic);

}  // namespace
}  // namespace saccade::kernels
