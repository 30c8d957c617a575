// RoIAlign (He et al. 2017, "Mask R-CNN"): crops boxes from feature maps, each as size x size cells. A cell
// is the mean of bilinear samples on a regular grid within it.
#pragma once

#include <vector>

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct RoiAlignParams {
  static constexpr int kMaxLevels = 8;
  static constexpr int kMaxSamples = 4096;  // per side of a cell; the maximum

  int64_t size = 7;  // cells per side
  // Samples per side of a cell; 0: as many as the cell's side has pixels of the map, rounded up.
  int64_t sampling_ratio = 0;
  bool aligned = true;
  std::vector<int64_t> strides{};  // image pixels per cell of each level
};

// rois f32 [R, 4], corners in pixels of the image; level_of_roi and image_of_roi i64 [R]; levels: maps
// [N, H_l, W_l, C] of one floating dtype; y [R, size, size, C] of the same. Cell (i, j) of a map has its
// centre at (j + 0.5, i + 0.5) strides. If not aligned, it is at (j, i) strides, and boxes are at least a
// cell of the map wide and high (Detectron's first form, used by torchvision's models). A sample counts up to
// one cell beyond the map's outermost centres, where the edge values continue; other samples are 0, and so
// are all cells of a box without width or height, or of a level or image that does not exist. All contiguous.
inline Kernel<void(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                   const std::vector<Tensor>& levels, const RoiAlignParams& p, Tensor& y)>
    roi_align_forward{"roi_align_forward"};
// The gradients of dot(y, dy), in the maps' dtype; an undefined level is skipped. Deterministic: one owner
// sums a cell of a map, in the order of the boxes.
inline Kernel<void(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                   const Tensor& dy, const RoiAlignParams& p, std::vector<Tensor>& dlevels)>
    roi_align_backward{"roi_align_backward"};

}  // namespace saccade::kernels
