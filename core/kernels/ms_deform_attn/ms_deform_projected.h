// Multi-scale deformable attention with the projection of its values, for inference: samples are weighted
// sums of values, and values are linear in the tokens, so the tokens may be sampled before they are
// projected. With few queries that saves most of the projection.
#pragma once

#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

namespace saccade::kernels {

// y = ms_deform_attn(tokens w^T + bias, ...), where the values of padded tokens are 0. tokens [N, S, C];
// padding [N, S], true for padded tokens, or undefined; w [M * D, C], bias [M * D]; the others as in
// ms_deform_attn_forward. f32 numbers may be added in another order than by the two kernels.
inline Kernel<void(const Tensor& tokens, const Tensor& padding, const Tensor& w, const Tensor& bias,
                   const Tensor& reference_points, const Tensor& offsets, const Tensor& logits,
                   const FeatureLevels& levels, Tensor& y)>
    ms_deform_projected{"ms_deform_projected"};

}  // namespace saccade::kernels
