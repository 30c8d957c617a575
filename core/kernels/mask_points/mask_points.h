// Random points, and the values of masks at points. Without gradients.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// rows i64 [P, 2] as (image, number) -> points f32 [P, K, 2], uniform in the unit square; the points of a row
// depend only on its two numbers. Coordinate i of a row is uniform_from_bits(Philox::generate(key, image,
// number << 32 | i / 4).x[i % 4]). Contiguous.
inline Kernel<void(const Tensor& rows, uint64_t key, Tensor& points)> random_points{"random_points"};

// Masks of height x width pixels: the runs [begin, end) of their set pixels, i64 [T, 2] as in Mask; mask r
// has the runs from begins[r] to before begins[r + 1], i64 [R + 1]. rows i64 [P]: the mask of each row of
// points; points f32 [P, K, 2] as (x, y) in [0, 1] across it. -> inside f32 [P, K], 0 or 1: the value of the
// nearest pixel, halfway that of the even index. Contiguous.
inline Kernel<void(const Tensor& runs, const Tensor& begins, int64_t height, int64_t width,
                   const Tensor& rows, const Tensor& points, Tensor& inside)>
    mask_points{"mask_points"};

}  // namespace saccade::kernels
