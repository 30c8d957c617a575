// Single-source deformable attention: the kernels of samples_generic.h over MsDeformSource.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "core/kernels/common/samples_generic.h"
#include "core/kernels/ms_deform_attn/ms_deform_source.h"

namespace saccade::kernels {
namespace {

void forward_generic(const Tensor& value, const Tensor& reference, const Tensor& offsets,
                     const Tensor& logits, const FeatureLevels& levels, Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_float(value.dtype(), "ms_deform_attn", [&]<class T>() {
    MsDeformSource<acc_t<T>> source(reference, offsets, logits);
    gather_rows<T>(source, shape_of_samples(value, offsets, levels), value, y);
  });
}

void backward_generic(const Tensor& value, const Tensor& reference, const Tensor& offsets,
                      const Tensor& logits, const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue,
                      Tensor& dreference, Tensor& doffsets, Tensor& dlogits) {
  SampleShape s = shape_of_samples(value, offsets, levels);
  dispatch_float(value.dtype(), "ms_deform_attn", [&]<class T>() {
    MsDeformSource<acc_t<T>> source(reference, offsets, logits);
    with_reference_gradient(source, s, dreference, doffsets, dlogits,
                            [&](const auto& gradients, bool wanted) {
                              samples_backward<T>(source, gradients, wanted, s, value, dy, dvalue);
                            });
  });
}

template <class A>
struct Locations {  // i = (n * M + m) * Q + q
  MsDeformSource<A> source;
  SampleShape s;
  A *locations, *weights;
  SACCADE_HD void operator()(int64_t i) const {
    SampleRow row = s.row(i);
    auto softmax = source.template weights<1>(s, row, 0);
    for (int k = 0; k < s.K; ++k) {
      int64_t j = row.row * s.K + k;
      int level = k / source.P;
      const A *ref = source.reference_of(s, row, level), *offset = source.offsets + 2 * j;
      bool boxes = source.R == 4;
      A scale_x = boxes ? ref[2] * source.half : 1 / static_cast<A>(s.levels.width[level]);
      A scale_y = boxes ? ref[3] * source.half : 1 / static_cast<A>(s.levels.height[level]);
      locations[2 * j] = ref[0] + offset[0] * scale_x;
      locations[2 * j + 1] = ref[1] + offset[1] * scale_y;
      weights[j] = softmax.of(k);
    }
  }
};

void locations_generic(const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                       const FeatureLevels& levels, Tensor& locations, Tensor& weights) {
  if (weights.numel() == 0) return;
  dispatch_dtype<float, double>(logits.dtype(), "ms_deform_locations", [&]<class A>() {
    SampleShape s = shape_of_samples(Tensor(), offsets, levels);
    for_each(s.rows(),
             Locations<A>{MsDeformSource<A>(reference, offsets, logits), s, locations.data<A>(),
                          weights.data<A>()},
             s.K * 8);
  });
}

// The normalised location of a point is the same as in Locations, but summed in another order, that of the
// official code.
template <class A>
struct Cells {  // i: a point
  MsDeformSource<A> source;
  SampleShape s;
  A* cells;
  SACCADE_HD static A centre(A location, int size) {
    const A position = location * static_cast<A>(size) + A(0.5);
    // This also covers NaNs.
    const A last = static_cast<A>(size - 1);
    if (!(position > 0)) return A(0.5);
    return (position < last ? static_cast<A>(static_cast<int>(position)) : last) + A(0.5);
  }
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t row = i / s.K;
    const int level = static_cast<int>(i % s.K) / source.P;
    const A *ref = source.reference + (row / s.M * s.levels.count + level) * source.R,
            *offset = source.offsets + 2 * i;
    const int width = s.levels.width[level], height = s.levels.height[level];
    A dx = offset[0] / static_cast<A>(width), dy = offset[1] / static_cast<A>(height);
    if (source.R == 4) {
      dx = offset[0] / static_cast<A>(source.P) * ref[2] * A(0.5);
      dy = offset[1] / static_cast<A>(source.P) * ref[3] * A(0.5);
    }
    cells[2 * i] = centre(ref[0] + dx, width);
    cells[2 * i + 1] = centre(ref[1] + dy, height);
  }
};

void cells_generic(const Tensor& reference, const Tensor& offsets, const FeatureLevels& levels,
                   Tensor& cells) {
  if (cells.numel() == 0) return;
  dispatch_dtype<float, double>(offsets.dtype(), "ms_deform_cells", [&]<class A>() {
    SampleShape s = shape_of_samples(Tensor(), offsets, levels);
    for_each(s.rows() * s.K, Cells<A>{MsDeformSource<A>(reference, offsets, offsets), s, cells.data<A>()},
             16);
  });
}

SACCADE_REGISTER_KERNEL(ms_deform_attn_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(ms_deform_attn_backward, &backward_generic);
SACCADE_REGISTER_KERNEL(ms_deform_locations, &locations_generic);
SACCADE_REGISTER_KERNEL(ms_deform_cells, &cells_generic);

}  // namespace
}  // namespace saccade::kernels
