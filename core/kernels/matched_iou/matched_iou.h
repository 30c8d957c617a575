// The overlap of predicted boxes with the objects that they were matched with,
// where class losses look for it.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// quality[rows[p]] = IoU of boxes[p] and truth[p], 0 for two boxes without area; the other elements stay as
// they are. boxes, truth [P, 4] as (cx, cy, w, h); rows i64 [P], each row once; quality [R].
// f32 or f64, contiguous.
inline Kernel<void(const Tensor& boxes, const Tensor& truth, const Tensor& rows, Tensor& quality)>
    matched_iou{"matched_iou"};

// labels[rows[i]] = classes[i]; i64, the rows all different.
inline Kernel<void(const Tensor& classes, const Tensor& rows, Tensor& labels)> put_labels{"put_labels"};

}  // namespace saccade::kernels
