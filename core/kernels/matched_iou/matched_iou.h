// The overlap of predicted boxes with their matched objects, stored where class losses read it.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// quality[rows[p]] = IoU of boxes[p] and truth[p], 0 for two boxes without area; other elements are
// unchanged. boxes, truth [P, 4] as (cx, cy, w, h); rows i64 [P], all different; quality [R]. f32 or f64,
// contiguous.
inline Kernel<void(const Tensor& boxes, const Tensor& truth, const Tensor& rows, Tensor& quality)>
    matched_iou{"matched_iou"};

// labels[rows[i]] = classes[i]; i64, with all rows different.
inline Kernel<void(const Tensor& classes, const Tensor& rows, Tensor& labels)> put_labels{"put_labels"};

}  // namespace saccade::kernels
