// What masks are at points. Without gradients.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// bitmaps u8 [R, H, W], 0 or 1; rows i64 [P], whose bitmap a row of points is about; points f32 [P, K, 2] as
// (x, y) in [0, 1] across it. -> inside f32 [P, K], what the nearest pixel is,
// halfway the one of even number. Contiguous.
inline Kernel<void(const Tensor& bitmaps, const Tensor& rows, const Tensor& points, Tensor& inside)>
    mask_points{"mask_points"};

}  // namespace saccade::kernels
