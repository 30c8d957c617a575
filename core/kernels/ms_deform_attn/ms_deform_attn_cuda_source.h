// The points of deformable attention as a Source of samples.h.
#pragma once

#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "core/tensor/math.h"

namespace saccade::cuda {

struct MsDeformSource {
  const float *reference, *offsets, *logits;  // [N, Q, L, R], [N, Q, M, L, P, 2], [N, Q, M, L * P]
  int P, R;
  float half;  // of a box, for one point: 1 / (2 P)

  static MsDeformSource of(const Tensor& reference, const Tensor& offsets, const Tensor& logits) {
    auto P = static_cast<int>(offsets.dim(4));
    return {reference.data<float>(),
            offsets.data<float>(),
            logits.data<float>(),
            P,
            static_cast<int>(reference.dim(3)),
            0.5f / static_cast<float>(P)};
  }
  static SampleShape shape_of(const Tensor& value, const Tensor& offsets, const FeatureLevels& levels) {
    auto size = [](int64_t n) { return static_cast<int>(n); };
    SampleShape s{size(offsets.dim(0)),
                  size(offsets.dim(1)),
                  size(offsets.dim(2)),
                  size(value.dim(3)),
                  size(levels.size() * offsets.dim(4)),
                  {}};
    for (const MapSize& map : levels) s.levels.push_back(map);
    return s;
  }
  static bool fits(const Tensor& value, const Tensor& offsets, const FeatureLevels& levels) {
    return value.dtype() != DType::kF64 && packs_fit<2>(offsets.data<float>(), 0) &&
           indices_fit(offsets.dim(0), offsets.dim(1), offsets.dim(2), value.dim(3),
                       levels.size() * offsets.dim(4), levels.tokens());
  }

  struct Located {
    SamplePoint point;
    float x, y;
    int level;
    float step_x, step_y;  // d(position in cells)/d(offset)
  };
  __device__ __forceinline__ Located locate(const SampleShape& s, const SampleRow& row, int k) const {
    Located out;
    out.level = k / P;
    const float* ref = reference + (row.query * s.levels.count + out.level) * R;
    auto offset = load_pack<2>(offsets + (row.row * s.K + k) * 2);
    auto width = static_cast<float>(s.levels.width[out.level]),
         height = static_cast<float>(s.levels.height[out.level]);
    out.step_x = R == 2 ? 1.0f : ref[2] * half * width;
    out.step_y = R == 2 ? 1.0f : ref[3] * half * height;
    out.x = math::fma(offset.x[0], out.step_x, math::fma(ref[0], width, -0.5f));
    out.y = math::fma(offset.x[1], out.step_y, math::fma(ref[1], height, -0.5f));
    out.point = SamplePoint::at(out.x, out.y, s.levels.height[out.level], s.levels.width[out.level]);
    return out;
  }

  // The softmax of a row.
  struct Weights {
    const float* z;
    float shift, scale;
    __device__ __forceinline__ float of(int k) const { return math::exp(z[k] - shift) * scale; }
  };
  // By the kLanes threads of a row together, each with its `sub`.
  template <int kLanes>
  __device__ __forceinline__ Weights weights(const SampleShape& s, const SampleRow& row, int sub) const {
    const float* z = logits + row.row * s.K;
    float shift = -INFINITY, sum = 0;
    for (int k = sub; k < s.K; k += kLanes) shift = z[k] > shift ? z[k] : shift;
    if constexpr (kLanes > 1) shift = warp_max<kLanes>(shift);
    for (int k = sub; k < s.K; k += kLanes) sum += math::exp(z[k] - shift);
    if constexpr (kLanes > 1) sum = warp_sum<kLanes>(sum);
    return {z, shift, 1 / sum};
  }

  struct Gradients {
    float *doffsets, *dlogits;  // may be null
    float* dlocations;          // by the normalised location, like offsets; may be null
  };
  struct Sums {
    float delta = 0;  // sum over k of weight k * d(result)/d(weight k)
  };
  __device__ __forceinline__ void point_gradient(const Gradients& out, const SampleShape& s,
                                                 const SampleRow& row, int k, float weight,
                                                 const float (&dots)[4], Sums& sums) const {
    Located at = locate(s, row, k);
    float sampled = 0;
    for (int c = 0; c < 4; ++c) sampled += at.point.weight(c) * dots[c];
    sums.delta += weight * sampled;
    int64_t j = row.row * s.K + k;
    if (out.dlogits) out.dlogits[j] = sampled;
    float gx = weight * at.point.slope_x(dots), gy = weight * at.point.slope_y(dots);
    if (out.doffsets) store_pack<2>(out.doffsets + 2 * j, {gx * at.step_x, gy * at.step_y});
    if (out.dlocations)
      store_pack<2>(out.dlocations + 2 * j, {gx * static_cast<float>(s.levels.width[at.level]),
                                             gy * static_cast<float>(s.levels.height[at.level])});
  }
  // Every lane meets the logits again whose derivatives it has written.
  template <int kLanes>
  __device__ __forceinline__ void finish(const Gradients& out, const SampleShape& s, const SampleRow& row,
                                         bool valid, int sub, const Weights& weights, Sums& sums) const {
    float delta = warp_sum<kLanes>(sums.delta);
    if (!out.dlogits || !valid) return;
    for (int k0 = 0; k0 < s.K; k0 += kSlab) {
      for (int k = k0 + sub; k < k0 + kSlab && k < s.K; k += kLanes) {
        float* d = out.dlogits + row.row * s.K + k;
        *d = weights.of(k) * (*d - delta);
      }
    }
  }
};

}  // namespace saccade::cuda
