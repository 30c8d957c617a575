// Shared by batch norm and group norm: x viewed as [B, S, C] (batch norm: B = 1), statistics per (b, c)
// computed in row blocks of fixed size, and y = act((x - mean) * scale + shift) with mean, scale and shift
// given per (b, c).
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/kernels/common/column_tiles.h"
#include "core/tensor/tensor.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

struct NormView {
  int64_t B, S, C;
  SACCADE_HD int64_t blocks() const { return ceil_div(S, kTileRows); }
  SACCADE_HD int64_t tiles() const { return ceil_div(C, kTileColumns); }
};

// Mean and sum of squared deviations of one block of rows (the second read comes from the cache).
// index = (b, block, channel tile)
template <class T>
struct BlockMoments {
  using A = acc_t<T>;
  NormView v;
  const T* x;
  A *mean, *m2;  // [B, blocks, C]

  template <bool Full>
  SACCADE_HD void run(int64_t i, int64_t first, int64_t width) const {
    int64_t w = Full ? kTileColumns : width, block = i % v.blocks(), b = i / v.blocks();
    int64_t begin = block * kTileRows, end = begin + kTileRows < v.S ? begin + kTileRows : v.S;
    const T* p = x + b * v.S * v.C + first;
    A sum[kTileColumns] = {}, square[kTileColumns] = {};
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < w; ++c) sum[c] += static_cast<A>(p[r * v.C + c]);
    A inverse = A(1) / static_cast<A>(end - begin);
    for (int64_t c = 0; c < w; ++c) sum[c] *= inverse;
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < w; ++c) {
        A d = static_cast<A>(p[r * v.C + c]) - sum[c];
        square[c] += d * d;
      }
    }
    int64_t at = (b * v.blocks() + block) * v.C + first;
    for (int64_t c = 0; c < w; ++c) mean[at + c] = sum[c];
    for (int64_t c = 0; c < w; ++c) m2[at + c] = square[c];
  }
  SACCADE_HD void operator()(int64_t i) const { run_tile(*this, i, v.C); }
};

// Joins the blocks of a channel (Chan, Golub, LeVeque 1979): M2 = sum of M2_j + n_j (mean_j - mean)^2.
// index = (b, group of kWidth channels)
template <class A>
struct JoinMoments {
  static constexpr int64_t kWidth = 16;
  NormView v;
  const A *block_mean, *block_m2;  // [B, blocks, C]
  double *mean, *m2;               // [B, C]
  SACCADE_HD void operator()(int64_t i) const {
    int64_t per = ceil_div(v.C, kWidth), b = i / per, first = i % per * kWidth;
    int64_t n = v.C - first < kWidth ? v.C - first : kWidth;
    double sum[kWidth] = {}, square[kWidth] = {};
    for (int64_t j = 0; j < v.blocks(); ++j) {
      double rows = static_cast<double>(j + 1 < v.blocks() ? kTileRows : v.S - j * kTileRows);
      const A* p = block_mean + (b * v.blocks() + j) * v.C + first;
      for (int64_t c = 0; c < n; ++c) sum[c] += rows * static_cast<double>(p[c]);
    }
    for (int64_t c = 0; c < n; ++c) sum[c] /= static_cast<double>(v.S);
    for (int64_t j = 0; j < v.blocks(); ++j) {
      double rows = static_cast<double>(j + 1 < v.blocks() ? kTileRows : v.S - j * kTileRows);
      int64_t at = (b * v.blocks() + j) * v.C + first;
      for (int64_t c = 0; c < n; ++c) {
        double d = static_cast<double>(block_mean[at + c]) - sum[c];
        square[c] += static_cast<double>(block_m2[at + c]) + rows * d * d;
      }
    }
    for (int64_t c = 0; c < n; ++c) mean[b * v.C + first + c] = sum[c];
    for (int64_t c = 0; c < n; ++c) m2[b * v.C + first + c] = square[c];
  }
};

// mean and m2: f64 [B, C]
template <class T>
void channel_moments(const NormView& v, const T* x, Tensor& mean, Tensor& m2) {
  using A = acc_t<T>;
  Tensor partial = Tensor::empty({2, v.B * v.blocks() * v.C}, dtype_of<A>, mean.device());
  A *p = partial.data<A>(), *q = p + v.B * v.blocks() * v.C;
  for_each(v.B * v.blocks() * v.tiles(), BlockMoments<T>{v, x, p, q}, 2 * kTileRows * kTileColumns);
  JoinMoments<A> join{v, p, q, mean.data<double>(), m2.data<double>()};
  for_each(v.B * ((v.C + 15) / 16), join, v.blocks() * 64);
}

constexpr int64_t kApplyRows = 32;

// y = act((x - mean) * scale + shift); index = (b, block of kApplyRows rows)
template <class F, class T>
struct NormApply {
  using A = acc_t<T>;
  NormView v;
  const T* x;
  const A *mean, *scale, *shift;  // [B, C]
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t per = ceil_div(v.S, kApplyRows), b = i / per, begin = i % per * kApplyRows;
    int64_t end = begin + kApplyRows < v.S ? begin + kApplyRows : v.S;
    const A *m = mean + b * v.C, *a = scale + b * v.C, *s = shift + b * v.C;
    for (int64_t r = begin; r < end; ++r) {
      int64_t at = (b * v.S + r) * v.C;
      for (int64_t c = 0; c < v.C; ++c) {
        A z = (static_cast<A>(x[at + c]) - m[c]) * a[c] + s[c];
        y[at + c] = static_cast<T>(F::value(z));
      }
    }
  }
};

// Block sums of g and g * (x - mean), g = dy act'(z) with z recomputed from x.
// index = (b, block, channel tile)
template <class F, class T>
struct NormGradientSums {
  using A = acc_t<T>;
  NormView v;
  const T *dy, *x;
  const A *mean, *scale, *shift;  // [B, C]
  A *s1, *s2;                     // [B, blocks, C]

  template <bool Full>
  SACCADE_HD void run(int64_t i, int64_t first, int64_t width) const {
    int64_t w = Full ? kTileColumns : width, block = i % v.blocks(), b = i / v.blocks();
    int64_t begin = block * kTileRows, end = begin + kTileRows < v.S ? begin + kTileRows : v.S;
    const A *m = mean + b * v.C + first, *a = scale + b * v.C + first,
            *s = is_identity<F> ? nullptr : shift + b * v.C + first;
    A sum[kTileColumns] = {}, product[kTileColumns] = {};
    for (int64_t r = begin; r < end; ++r) {
      int64_t at = (b * v.S + r) * v.C + first;
      for (int64_t c = 0; c < w; ++c) {
        A d = static_cast<A>(x[at + c]) - m[c], g = static_cast<A>(dy[at + c]);
        if constexpr (!is_identity<F>) g = gradient_at<F>(d * a[c] + s[c], g);
        sum[c] += g;
        product[c] += g * d;
      }
    }
    int64_t at = (b * v.blocks() + block) * v.C + first;
    for (int64_t c = 0; c < w; ++c) s1[at + c] = sum[c];
    for (int64_t c = 0; c < w; ++c) s2[at + c] = product[c];
  }
  SACCADE_HD void operator()(int64_t i) const { run_tile(*this, i, v.C); }
};

// s1, s2: [B, C] of acc_t<T>
template <class F, class T>
void norm_gradient_sums(const NormView& v, const T* dy, const T* x, const acc_t<T>* mean,
                        const acc_t<T>* scale, const acc_t<T>* shift, Tensor& s1, Tensor& s2) {
  using A = acc_t<T>;
  Tensor partial = Tensor::empty({2, v.B * v.blocks() * v.C}, dtype_of<A>, s1.device());
  A *p = partial.data<A>(), *q = p + v.B * v.blocks() * v.C;
  for_each(v.B * v.blocks() * v.tiles(), NormGradientSums<F, T>{v, dy, x, mean, scale, shift, p, q},
           2 * kTileRows * kTileColumns);
  sum_partials(p, s1.data<A>(), v.B, v.blocks(), v.C);
  sum_partials(q, s2.data<A>(), v.B, v.blocks(), v.C);
}

// dx = scale * g + factor * (x - mean) + constant; index = (b, block of kApplyRows rows)
template <class F, class T>
struct NormBackward {
  using A = acc_t<T>;
  NormView v;
  const T *dy, *x;
  const A *mean, *scale, *shift, *factor, *constant;  // [B, C]
  T* dx;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t per = ceil_div(v.S, kApplyRows), b = i / per, begin = i % per * kApplyRows;
    int64_t end = begin + kApplyRows < v.S ? begin + kApplyRows : v.S;
    const A *m = mean + b * v.C, *a = scale + b * v.C, *s = is_identity<F> ? nullptr : shift + b * v.C;
    const A *f = factor + b * v.C, *k = constant + b * v.C;
    for (int64_t r = begin; r < end; ++r) {
      int64_t at = (b * v.S + r) * v.C;
      for (int64_t c = 0; c < v.C; ++c) {
        A d = static_cast<A>(x[at + c]) - m[c], g = static_cast<A>(dy[at + c]);
        if constexpr (!is_identity<F>) g = gradient_at<F>(d * a[c] + s[c], g);
        dx[at + c] = static_cast<T>(a[c] * g + f[c] * d + k[c]);
      }
    }
  }
};

inline int64_t apply_count(const NormView& v) { return v.B * ceil_div(v.S, kApplyRows); }

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
