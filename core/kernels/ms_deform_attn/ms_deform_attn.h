// Multi-scale deformable attention (Zhu et al., Deformable DETR, eq. 3; docs/ms_deform_attn.md), fused from
// logits and offsets: softmax, sampling locations, bilinear gather and weighted sum in one pass; no samples
// are stored.
//
// Shapes: value [N, S, M, D]; reference_points [N, Q, L, R], R = 2: (x, y) or 4: (x, y, w, h); offsets
// [N, Q, M, L, P, 2]; logits [N, Q, M, L * P]; output [N, Q, M * D]. Value and output have one dtype (f32,
// bf16 or f64); coordinates and logits are f64 with f64 values and f32 otherwise. All are contiguous.
#pragma once

#include "core/runtime/kernel.h"
#include "core/types/feature_levels.h"

namespace saccade::kernels {

// y = attention(value, ...)
inline Kernel<void(const Tensor& value, const Tensor& reference_points, const Tensor& offsets,
                   const Tensor& logits, const FeatureLevels& levels, Tensor& y)>
    ms_deform_attn_forward{"ms_deform_attn_forward"};

// Gradients of dot(y, dy), each of its input's shape and dtype; undefined outputs are skipped. The softmax is
// recomputed. Deterministic: every gradient element is summed by one owner in the order of the queries, for
// any number of threads.
inline Kernel<void(const Tensor& value, const Tensor& reference_points, const Tensor& offsets,
                   const Tensor& logits, const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue,
                   Tensor& dreference_points, Tensor& doffsets, Tensor& dlogits)>
    ms_deform_attn_backward{"ms_deform_attn_backward"};

// The sampled points, for drawing: locations [N, Q, M, L, P, 2] as (x, y) normalised to the padded level (the
// same in every level for one image point) and weights [N, Q, M, L, P], which sum to 1 over L * P.
inline Kernel<void(const Tensor& reference_points, const Tensor& offsets, const Tensor& logits,
                   const FeatureLevels& levels, Tensor& locations, Tensor& weights)>
    ms_deform_locations{"ms_deform_locations"};

// The cells of discrete sampling (RT-DETRv2): cells, shaped like offsets, holds for each point the centre of
// its cell in units of cells, (column + 0.5, row + 0.5), with column = the whole part of x * width + 0.5,
// clamped to the map. As offsets from a reference of zeros they make ms_deform_attn read exactly these cells,
// to the bit.
inline Kernel<void(const Tensor& reference_points, const Tensor& offsets, const FeatureLevels& levels,
                   Tensor& cells)>
    ms_deform_cells{"ms_deform_cells"};

}  // namespace saccade::kernels
