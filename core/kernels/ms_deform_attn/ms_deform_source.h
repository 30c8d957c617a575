// The points of deformable attention as a Source of samples.h.
#pragma once

#include "core/kernels/common/samples.h"
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// value may be undefined if only the points are needed.
inline SampleShape shape_of_samples(const Tensor& value, const Tensor& offsets, const FeatureLevels& levels) {
  SampleShape s(offsets.dim(0), offsets.dim(1), offsets.dim(2), value.defined() ? value.dim(3) : 0,
                levels.size() * offsets.dim(4));
  for (const MapSize& map : levels) s.levels.push_back(map);
  return s;
}

// kP points on each of kL levels if known at compile time, else 0.
template <class A, class Access = ThreadAccess, int kP = 0, int kL = 0>
struct MsDeformSource {
  using Value = A;
  static constexpr int kK = kP * kL;
  const A *reference, *offsets, *logits;  // [N, Q, L, R], [N, Q, M, L, P, 2], [N, Q, M, L * P]
  int P, R;
  A half;  // half a box, per point: 1 / (2 P)

  MsDeformSource(const Tensor& reference_points, const Tensor& point_offsets, const Tensor& point_logits)
      : reference(reference_points.data<A>()),
        offsets(point_offsets.data<A>()),
        logits(point_logits.data<A>()),
        P(static_cast<int>(point_offsets.dim(4))),
        R(static_cast<int>(reference_points.dim(3))),
        half(A(0.5) / static_cast<A>(P)) {}

  SACCADE_HD static int count(const SampleShape& s) { return kK > 0 ? kK : s.K; }
  SACCADE_HD const A* reference_of(const SampleShape& s, const SampleRow& row, int level) const {
    return reference + (row.query * (kL > 0 ? kL : s.levels.count) + level) * R;
  }
  // d(position in cells)/d(offset)
  SACCADE_HD Two<A> steps(const SampleShape& s, const SampleRow& row, int level) const {
    if (R == 2) return {1, 1};
    const A* ref = reference_of(s, row, level);
    return {ref[2] * half * static_cast<A>(s.levels.width[level]),
            ref[3] * half * static_cast<A>(s.levels.height[level])};
  }
  SACCADE_HD SamplePosition<A> locate(const SampleShape& s, const SampleRow& row, int k) const {
    int level = k / (kP > 0 ? kP : P);
    const A* ref = reference_of(s, row, level);
    auto offset = Access::load(offsets + (row.row * count(s) + k) * 2), step = steps(s, row, level);
    auto width = static_cast<A>(s.levels.width[level]), height = static_cast<A>(s.levels.height[level]);
    return SamplePosition<A>::of(s, level, math::fma(offset.x, step.x, math::fma(ref[0], width, A(-0.5))),
                                 math::fma(offset.y, step.y, math::fma(ref[1], height, A(-0.5))));
  }

  // The softmax of a row.
  struct Weights {
    const A* z;
    A shift, scale;
    SACCADE_HD A of(int k) const { return math::exp(z[k] - shift) * scale; }
  };
  template <int kLanes>
  SACCADE_HD Weights weights(const SampleShape& s, const SampleRow& row, int sub) const {
    const int K = count(s);
    const A* z = logits + row.row * K;
    A shift = -std::numeric_limits<A>::infinity(), sum = 0;
    for (int k = sub; k < K; k += kLanes) shift = z[k] > shift ? z[k] : shift;
    shift = Access::template max<kLanes>(shift);
    for (int k = sub; k < K; k += kLanes) sum += math::exp(z[k] - shift);
    return {z, shift, 1 / Access::template sum<kLanes>(sum)};
  }

  struct Gradients {
    A *doffsets, *dlogits;  // may be null
    A* dlocations;          // with respect to the normalised location, like offsets; may be null
  };
  struct Sums {
    A delta = 0;  // sum over k of weight k * d(result)/d(weight k)
  };
  SACCADE_HD void point_gradient(const Gradients& out, const SampleShape& s, const SampleRow& row, int k,
                                 A weight, const A (&dots)[4], Sums& sums) const {
    SamplePosition<A> p = locate(s, row, k);
    A sampled = 0;
    for (int c = 0; c < 4; ++c) sampled += p.at.weight(c) * dots[c];
    sums.delta += weight * sampled;
    int64_t j = row.row * s.K + k;
    if (out.dlogits) out.dlogits[j] = sampled;
    A gx = weight * p.at.slope_x(dots), gy = weight * p.at.slope_y(dots);
    if (out.doffsets) {
      auto step = steps(s, row, p.level);
      Access::store(out.doffsets + 2 * j, Two<A>{gx * step.x, gy * step.y});
    }
    if (out.dlocations)
      Access::store(out.dlocations + 2 * j, Two<A>{gx * static_cast<A>(s.levels.width[p.level]),
                                                   gy * static_cast<A>(s.levels.height[p.level])});
  }
  // Every lane reads back those entries of dlogits that it has written itself.
  template <int kLanes>
  SACCADE_HD void finish(const Gradients& out, const SampleShape& s, const SampleRow& row, bool valid,
                         int sub, const Weights& weights, Sums& sums) const {
    A delta = Access::template sum<kLanes>(sums.delta);
    if (!out.dlogits || !valid) return;
    for (int k0 = 0; k0 < s.K; k0 += kSlab) {
      for (int k = k0 + sub; k < k0 + kSlab && k < s.K; k += kLanes) {
        A* d = out.dlogits + row.row * s.K + k;
        *d = weights.of(k) * (*d - delta);
      }
    }
  }
};

// dreference [N, Q, L, R]; an index has one query and level and adds its heads and points in order.
template <class Source>
struct ReferenceGradient {  // i = (n * Q + q) * L + l
  using A = typename Source::Value;
  Source source;
  int L, M;
  const A* dlocations;
  A* dreference;
  SACCADE_HD void operator()(int64_t i) const {
    A sum[4] = {};
    for (int m = 0; m < M; ++m) {
      int64_t first = ((i / L * M + m) * L + i % L) * source.P;
      for (int64_t j = 2 * first; j < 2 * (first + source.P); j += 2) {
        A dx = dlocations[j], dy = dlocations[j + 1];
        sum[0] += dx;
        sum[1] += dy;
        sum[2] += dx * source.offsets[j] * source.half;
        sum[3] += dy * source.offsets[j + 1] * source.half;
      }
    }
    A* out = dreference + i * source.R;
    out[0] = sum[0];
    out[1] = sum[1];
    if (source.R == 4) {
      out[2] = sum[2];
      out[3] = sum[3];
    }
  }
};

// run(gradients, points_wanted) computes the points' gradients; the reference points' follow from them.
template <class Source, class Run>
void with_reference_gradient(const Source& source, const SampleShape& s, Tensor& dreference, Tensor& doffsets,
                             Tensor& dlogits, const Run& run) {
  using A = typename Source::Value;
  Tensor dlocations;
  if (dreference.defined())
    dlocations = Tensor::empty(Shape{s.N, s.Q, s.M, s.K, 2}, dreference.dtype(), dreference.device());
  run(typename Source::Gradients{data_or_null<A>(doffsets), data_or_null<A>(dlogits),
                                 data_or_null<A>(dlocations)},
      dreference.defined() || doffsets.defined() || dlogits.defined());
  if (!dreference.defined()) return;
  int L = s.levels.count;
  for_each(int64_t{s.N} * s.Q * L,
           ReferenceGradient<Source>{source, L, s.M, dlocations.data<A>(), dreference.data<A>()},
           int64_t{s.M} * source.P * 4);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
