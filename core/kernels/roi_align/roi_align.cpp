// Single-source RoIAlign, sample by sample. The backward gathers: a cell of a map searches for the boxes that
// contain it.
#include "core/kernels/roi_align/roi_align.h"

#include "core/kernels/roi_align/roi_samples.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int kRoiLanes = 8;  // channels per item

template <class T>
struct RoiMaps {
  T* data[RoiAlignParams::kMaxLevels] = {};
};

// i = (r, row, column, block of channels)
template <class T>
struct RoiAlignForward {
  using A = acc_t<T>;
  RoiBoxes boxes;
  RoiMaps<const T> maps;
  T* y;
  int blocks;

  SACCADE_HD void operator()(int64_t i) const {
    const int first = static_cast<int>(i % blocks) * kRoiLanes;
    const int lanes = boxes.C - first < kRoiLanes ? boxes.C - first : kRoiLanes;
    const int64_t out = i / blocks, r = out / boxes.size / boxes.size;
    const int row = static_cast<int>(out / boxes.size % boxes.size),
              column = static_cast<int>(out % boxes.size);
    A sum[kRoiLanes] = {};
    if (boxes.has_map(r)) {
      const RoiAxis<A> rows = boxes.rows<A>(r), columns = boxes.columns<A>(r);
      const int64_t l = boxes.levels[r], W = boxes.width[l];
      const T* map = maps.data[l] + boxes.images[r] * boxes.height[l] * W * boxes.C + first;
      for (int u = 0; u < rows.samples; ++u) {
        const RoiSample<A> v = rows.sample(row, u);
        for (int s = 0; s < columns.samples; ++s) {
          const RoiSample<A> h = columns.sample(column, s);
          const T *a = map + (v.low * W + h.low) * boxes.C, *b = map + (v.low * W + h.high) * boxes.C,
                  *c = map + (v.high * W + h.low) * boxes.C, *d = map + (v.high * W + h.high) * boxes.C;
          const A wa = v.weight_low * h.weight_low, wb = v.weight_low * h.weight_high,
                  wc = v.weight_high * h.weight_low, wd = v.weight_high * h.weight_high;
          if (wa + wb + wc + wd == 0) continue;  // outside the map, where non-finite values do not count
          for (int k = 0; k < lanes; ++k)
            sum[k] += wa * static_cast<A>(a[k]) + wb * static_cast<A>(b[k]) + wc * static_cast<A>(c[k]) +
                      wd * static_cast<A>(d[k]);
        }
      }
      if (rows.samples > 0 && columns.samples > 0)
        for (int k = 0; k < lanes; ++k) sum[k] *= roi_mean(rows, columns);
    }
    for (int k = 0; k < lanes; ++k) y[out * boxes.C + first + k] = static_cast<T>(sum[k]);
  }
};

// i = (n, row, column, block of channels) of a level's map
template <class T>
struct RoiAlignBackward {
  using A = acc_t<T>;
  RoiBoxes boxes;
  const T* dy;
  T* dx;
  int level, blocks;

  SACCADE_HD void operator()(int64_t i) const {
    const int first = static_cast<int>(i % blocks) * kRoiLanes, size = boxes.size;
    const int lanes = boxes.C - first < kRoiLanes ? boxes.C - first : kRoiLanes;
    const int64_t cell = i / blocks, W = boxes.width[level], n = cell / W / boxes.height[level];
    const int row = static_cast<int>(cell / W % boxes.height[level]), column = static_cast<int>(cell % W);
    A sum[kRoiLanes] = {};
    for (int64_t r = 0; r < boxes.count; ++r) {
      if (boxes.levels[r] != level || boxes.images[r] != n) continue;
      const RoiAxis<A> rows = boxes.rows<A>(r);
      if (rows.misses(row, size)) continue;
      const RoiAxis<A> columns = boxes.columns<A>(r);
      if (columns.misses(column, size)) continue;
      int top, bottom, left, right;
      rows.cells(row, size, &top, &bottom);
      columns.cells(column, size, &left, &right);
      for (int p = top; p < bottom; ++p) {
        const A weight = rows.weight(row, p) * roi_mean(rows, columns);
        if (weight == 0) continue;
        for (int q = left; q < right; ++q) {
          const A w = weight * columns.weight(column, q);
          if (w == 0) continue;
          const T* g = dy + ((r * size + p) * size + q) * boxes.C + first;
          for (int k = 0; k < lanes; ++k) sum[k] += w * static_cast<A>(g[k]);
        }
      }
    }
    for (int k = 0; k < lanes; ++k) dx[cell * boxes.C + first + k] = static_cast<T>(sum[k]);
  }
};

int blocks_of(const RoiBoxes& boxes) { return (boxes.C + kRoiLanes - 1) / kRoiLanes; }

void forward_generic(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                     const std::vector<Tensor>& levels, const RoiAlignParams& p, Tensor& y) {
  dispatch_float(y.dtype(), "roi_align", [&]<class T>() {
    const RoiBoxes boxes(rois, level_of_roi, image_of_roi, levels, p);
    RoiMaps<const T> maps;
    for (size_t l = 0; l < levels.size(); ++l) maps.data[l] = levels[l].data<T>();
    const int blocks = blocks_of(boxes);
    for_each(y.numel() == 0 ? 0 : boxes.count * p.size * p.size * blocks,
             RoiAlignForward<T>{boxes, maps, y.data<T>(), blocks}, 16 * kRoiLanes);
  });
}

void backward_generic(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                      const Tensor& dy, const RoiAlignParams& p, std::vector<Tensor>& dlevels) {
  dispatch_float(dy.dtype(), "roi_align", [&]<class T>() {
    const RoiBoxes boxes(rois, level_of_roi, image_of_roi, dlevels, p);
    const int blocks = blocks_of(boxes);
    for (size_t l = 0; l < dlevels.size(); ++l) {
      Tensor& dx = dlevels[l];
      if (!dx.defined() || dx.numel() == 0) continue;
      for_each(dx.numel() / boxes.C * blocks,
               RoiAlignBackward<T>{boxes, dy.data<T>(), dx.data<T>(), static_cast<int>(l), blocks},
               boxes.count * kRoiLanes);
    }
  });
}

SACCADE_REGISTER_KERNEL(roi_align_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(roi_align_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
