// Single-source kernels over the rows of samples of a Source (samples.h). Each index owns what it writes, so
// there are no atomics and the result does not depend on an order.
#pragma once

#include "core/kernels/common/samples.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

constexpr int kSampleChannels = 32;  // accumulated at a time; also those of an owner of maps

// The corners of a point: vectors, nullptr outside, and their weights times the point's weight.
template <class V, class A>
struct SampleVectors {
  V* v[4];
  A weight[4];

  SACCADE_HD SampleVectors(const SampleShape& s, const SamplePosition<A>& p, A point_weight, V* map) {
    const int height = s.levels.height[p.level], width = s.levels.width[p.level];
    const int64_t stride = int64_t{s.M} * s.D;
    map += s.levels.start[p.level] * stride;
    for (int c = 0; c < 4; ++c) {
      int cell = p.at.cell(c, height, width);
      v[c] = cell < 0 ? nullptr : map + cell * stride;
      weight[c] = p.at.weight(c) * point_weight;
    }
  }
  // Calls f(d, weighted sum of element d of the vectors) for each d.
  template <class F>
  SACCADE_HD void each(int count, const F& f) const {
    if (v[0] && v[1] && v[2] && v[3]) {
      const V *a = v[0], *b = v[1], *c = v[2], *e = v[3];
      const A wa = weight[0], wb = weight[1], wc = weight[2], we = weight[3];
      for (int64_t d = 0; d < count; ++d)
        f(d, wa * static_cast<A>(a[d]) + wb * static_cast<A>(b[d]) + wc * static_cast<A>(c[d]) +
                 we * static_cast<A>(e[d]));
      return;
    }
    for (int64_t d0 = 0; d0 < count; d0 += kSampleChannels) {
      int64_t n = count - d0 < kSampleChannels ? count - d0 : kSampleChannels;
      A sum[kSampleChannels] = {};
      for (int c = 0; c < 4; ++c) {
        if (!v[c]) continue;
        for (int64_t d = 0; d < n; ++d) sum[d] += weight[c] * static_cast<A>(v[c][d0 + d]);
      }
      for (int64_t d = 0; d < n; ++d) f(d0 + d, sum[d]);
    }
  }
};

template <class T, class Source>
struct GatherRow {  // i = (n * M + m) * Q + q
  using A = typename Source::Value;
  Source source;
  SampleShape s;
  const T* value;
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    SampleRow row = s.row(i);
    auto weights = source.template weights<1>(s, row, 0);
    const T* map = value + s.map(row.n, row.m);
    T* out = y + row.row * s.D;
    if (s.K == 1) {
      SampleVectors<const T, A> corners(s, source.locate(s, row, 0), weights.of(0), map);
      corners.each(s.D, [&](int64_t d, A x) { out[d] = static_cast<T>(x); });
      return;
    }
    for (int d0 = 0; d0 < s.D; d0 += kSampleChannels) {
      int count = s.D - d0 < kSampleChannels ? s.D - d0 : kSampleChannels;
      A sum[kSampleChannels] = {};
      for (int k = 0; k < s.K; ++k) {
        SampleVectors<const T, A> corners(s, source.locate(s, row, k), weights.of(k), map + d0);
        corners.each(count, [&](int64_t d, A x) { sum[d] += x; });
      }
      for (int d = 0; d < count; ++d) out[d0 + d] = static_cast<T>(sum[d]);
    }
  }
};

template <class T, class Source>
struct GatherPointGradients {  // i = (n * M + m) * Q + q
  using A = typename Source::Value;
  Source source;
  typename Source::Gradients gradients;
  SampleShape s;
  const T *value, *dy;
  SACCADE_HD void operator()(int64_t i) const {
    SampleRow row = s.row(i);
    auto weights = source.template weights<1>(s, row, 0);
    typename Source::Sums sums;
    const T* g = dy + row.row * s.D;
    for (int k = 0; k < s.K; ++k) {
      A weight = weights.of(k), dots[4] = {};
      SampleVectors<const T, A> corners(s, source.locate(s, row, k), weight, value + s.map(row.n, row.m));
      for (int c = 0; c < 4; ++c) {
        if (!corners.v[c]) continue;
        for (int d = 0; d < s.D; ++d) dots[c] += static_cast<A>(corners.v[c][d]) * static_cast<A>(g[d]);
      }
      source.point_gradient(gradients, s, row, k, weight, dots, sums);
    }
    source.template finish<1>(gradients, s, row, true, 0, weights, sums);
  }
};

// i = (n * M + m) * blocks + block owns its channels of head m in every token of image n, and adds the
// queries in order.
template <class T, class Source>
struct ScatterRows {
  using A = typename Source::Value;
  Source source;
  SampleShape s;
  const T* dy;
  A* dvalue;  // initially zero
  int blocks;
  SACCADE_HD void operator()(int64_t i) const {
    int n = static_cast<int>(i / blocks / s.M), m = static_cast<int>(i / blocks % s.M);
    int d0 = static_cast<int>(i % blocks) * kSampleChannels;
    int count = s.D - d0 < kSampleChannels ? s.D - d0 : kSampleChannels;
    for (int q = 0; q < s.Q; ++q) {
      SampleRow row = s.row(n, q, m);
      const T* g = dy + row.row * s.D + d0;
      auto weights = source.template weights<1>(s, row, 0);
      for (int k = 0; k < s.K; ++k) {
        SampleVectors<A, A> corners(s, source.locate(s, row, k), weights.of(k), dvalue + s.map(n, m) + d0);
        for (int c = 0; c < 4; ++c) {
          if (!corners.v[c]) continue;
          for (int d = 0; d < count; ++d) corners.v[c][d] += corners.weight[c] * static_cast<A>(g[d]);
        }
      }
    }
  }
};

template <class T, class Source>
void gather_rows(const Source& source, const SampleShape& s, const Tensor& value, Tensor& y) {
  for_each(s.rows(), GatherRow<T, Source>{source, s, value.data<T>(), y.data<T>()}, int64_t{s.K} * s.D * 4);
}

// Computes the gradients of points, if wanted, and dvalue if it is defined.
template <class T, class Source>
void samples_backward(const Source& source, const typename Source::Gradients& gradients, bool points_wanted,
                      const SampleShape& s, const Tensor& value, const Tensor& dy, Tensor& dvalue) {
  using A = typename Source::Value;
  if (points_wanted)
    for_each(s.rows(), GatherPointGradients<T, Source>{source, gradients, s, value.data<T>(), dy.data<T>()},
             int64_t{s.K} * s.D * 4);
  if (!dvalue.defined()) return;
  bool exact = std::is_same_v<T, A>;
  Tensor sum = exact ? dvalue : Tensor::empty(value.shape(), dtype_of<A>, value.device());
  fill(sum, 0);
  int blocks = static_cast<int>(ceil_div(s.D, kSampleChannels));
  for_each(int64_t{s.N} * s.M * blocks,
           ScatterRows<T, Source>{source, s, dy.data<T>(), sum.data<A>(), blocks},
           int64_t{s.Q} * s.K * kSampleChannels * 4);
  if (!exact) copy(sum, dvalue);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
