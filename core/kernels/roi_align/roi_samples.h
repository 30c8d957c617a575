// The samples of a box on one axis: RoIAlign is separable, so the weight of a map's cell in a cell of the box
// is the product of the two axes' weights. A position is always computed in the same way, with explicit fused
// products: kernels that compute it again must find it in the same cell, to the bit.
#pragma once

#include <cmath>

#include "core/kernels/roi_align/roi_align.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// A sample between the centres of two cells of an axis; both weights are 0 outside.
template <class A>
struct RoiSample {
  int low = 0, high = 0;
  A weight_low = 0, weight_high = 0;

  SACCADE_HD static RoiSample at(A position, int length) {
    RoiSample s;
    if (!(position >= A(-1) && position <= static_cast<A>(length))) return s;
    if (position < 0) position = 0;
    s.low = static_cast<int>(position);
    if (s.low >= length - 1) {
      s.low = s.high = length - 1;
      s.weight_low = 1;
      return s;
    }
    s.high = s.low + 1;
    s.weight_high = position - static_cast<A>(s.low);
    s.weight_low = 1 - s.weight_high;
    return s;
  }
  SACCADE_HD A of(int cell) const {
    return (cell == low ? weight_low : A(0)) + (cell == high ? weight_high : A(0));
  }
};

template <class A>
struct RoiAxis {
  A start = 0, bin = 0, step = 0;  // of the box's first cell, of a cell, between samples; in cells of the map
  int samples = 0;                 // per cell
  int length = 0;                  // of the map

  // first, last: the box's corners on this axis
  SACCADE_HD static RoiAxis of(float first, float last, int stride, int length, int size, int sampling_ratio,
                               bool aligned) {
    RoiAxis axis;
    const A scale = A(1) / static_cast<A>(stride);
    A width = static_cast<A>(last) * scale - static_cast<A>(first) * scale;
    if (!aligned && width < 1) width = 1;
    // NaNs return here too.
    if (!(width > 0 && width < A(1e9) && first > -1e9f)) return axis;
    axis.start = math::fma(static_cast<A>(first), scale, aligned ? A(-0.5) : A(0));
    axis.bin = width / static_cast<A>(size);
    const A count = std::ceil(axis.bin);
    constexpr int kMax = RoiAlignParams::kMaxSamples;
    axis.samples = sampling_ratio > 0 ? sampling_ratio : count < A(kMax) ? static_cast<int>(count) : kMax;
    axis.step = axis.bin / static_cast<A>(axis.samples);
    axis.length = length;
    return axis;
  }
  SACCADE_HD RoiSample<A> sample(int cell, int i) const {
    const A begin = math::fma(static_cast<A>(cell), bin, start);
    return RoiSample<A>::at(math::fma(static_cast<A>(i) + A(0.5), step, begin), length);
  }
  // The weight of the map's cell in the box's cell: a sum over samples.
  SACCADE_HD A weight(int map_cell, int cell) const {
    A sum = 0;
    for (int i = 0; i < samples; ++i) sum += sample(cell, i).of(map_cell);
    return sum;
  }
  // The box's cells [first, last) to which the map's cell may contribute.
  SACCADE_HD void cells(int map_cell, int size, int* first, int* last) const {
    const A low = (static_cast<A>(map_cell - 1) - start) / bin - 1;
    const A high = (static_cast<A>(map_cell + 1) - start) / bin + 2;
    *first = low > 0 ? (low < static_cast<A>(size) ? static_cast<int>(low) : size) : 0;
    *last = high < static_cast<A>(size) ? (high > 0 ? static_cast<int>(high) : 0) : size;
  }
  // Returns true if certainly no sample touches the map's cell.
  SACCADE_HD bool misses(int map_cell, int size) const {
    const A end = math::fma(static_cast<A>(size), bin, start);
    return samples == 0 || static_cast<A>(map_cell + 1) < start || static_cast<A>(map_cell - 1) > end;
  }
};

template <class A>
SACCADE_HD A roi_mean(const RoiAxis<A>& y, const RoiAxis<A>& x) {
  return A(1) / (static_cast<A>(y.samples) * static_cast<A>(x.samples));
}

// The boxes and the levels' sizes, for kernels.
struct RoiBoxes {
  const float* rois;
  const int64_t *levels, *images;
  int64_t count;
  int size, sampling_ratio, level_count, N, C;
  bool aligned;
  int height[RoiAlignParams::kMaxLevels], width[RoiAlignParams::kMaxLevels],
      stride[RoiAlignParams::kMaxLevels];

  RoiBoxes(const Tensor& boxes, const Tensor& level_of_roi, const Tensor& image_of_roi,
           const std::vector<Tensor>& maps, const RoiAlignParams& p)
      : rois(boxes.data<float>()),
        levels(level_of_roi.data<int64_t>()),
        images(image_of_roi.data<int64_t>()),
        count(boxes.dim(0)),
        size(static_cast<int>(p.size)),
        sampling_ratio(static_cast<int>(p.sampling_ratio)),
        level_count(static_cast<int>(maps.size())),
        N(0),
        C(0),
        aligned(p.aligned),
        height{},
        width{},
        stride{} {
    for (size_t l = 0; l < maps.size(); ++l) {
      stride[l] = static_cast<int>(p.strides[l]);
      if (!maps[l].defined()) continue;
      N = static_cast<int>(maps[l].dim(0));
      height[l] = static_cast<int>(maps[l].dim(1));
      width[l] = static_cast<int>(maps[l].dim(2));
      C = static_cast<int>(maps[l].dim(3));
    }
  }
  // Returns whether box r is on an existing map.
  SACCADE_HD bool has_map(int64_t r) const {
    return levels[r] >= 0 && levels[r] < level_count && images[r] >= 0 && images[r] < N &&
           height[levels[r]] > 0;
  }
  template <class A>
  SACCADE_HD RoiAxis<A> rows(int64_t r) const {
    const auto l = levels[r];
    return RoiAxis<A>::of(rois[4 * r + 1], rois[4 * r + 3], stride[l], height[l], size, sampling_ratio,
                          aligned);
  }
  template <class A>
  SACCADE_HD RoiAxis<A> columns(int64_t r) const {
    const auto l = levels[r];
    return RoiAxis<A>::of(rois[4 * r], rois[4 * r + 2], stride[l], width[l], size, sampling_ratio, aligned);
  }
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
