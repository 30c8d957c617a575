// Chooses the map of a pyramid from which a box is cropped (Lin et al. 2017, eq. 1). Without gradients.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// rois f32 [R, 4], corners in pixels -> level i64 [R]: floor(log2(sqrt(width height) / side + 1e-6)) clamped
// to [0, count - 1], so that boxes of twice the side use the second map. Contiguous.
inline Kernel<void(const Tensor& rois, double side, int64_t count, Tensor& level)> roi_levels{"roi_levels"};

}  // namespace saccade::kernels
