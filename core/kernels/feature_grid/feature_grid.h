// The positions of the cells and tokens of feature maps. Results that depend on padding use `valid`, i64
// [N, L, 2]: the height and width in cells of the part of each image's map that is not padding. All tensors
// are contiguous.
#pragma once

#include "core/runtime/kernel.h"
#include "core/types/feature_levels.h"

namespace saccade::kernels {

// centres [.., H * W, 2] f32 or f64: the cells' centres as (x, y) in coordinates that run from `low` to
// `high` across the map.
inline Kernel<void(MapSize map, double low, double high, Tensor& centres)> cell_centres{"cell_centres"};
// ratios f32 [N, L, 2]: the valid fraction of each level as (x, y). points f32 [N, S, L, 2]: the tokens'
// centres in every level's padded coordinates. mask bool [N, S]: true in the padding.
inline Kernel<void(const Tensor& valid, const FeatureLevels& levels, Tensor& ratios, Tensor& points,
                   Tensor& mask)>
    token_maps{"token_maps"};
// Two-stage proposals: logits f32 [N, S, 4], the inverse sigmoid of the box (cx, cy, w, h) of a token,
// centred on it and 0.05 * 2^level wide; +inf where `invalid` bool [N, S] is set: for padded tokens and boxes
// with a number outside (0.01, 0.99).
inline Kernel<void(const Tensor& valid, const FeatureLevels& levels, Tensor& logits, Tensor& invalid)>
    token_proposals{"token_proposals"};

}  // namespace saccade::kernels
