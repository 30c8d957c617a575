// Sines and cosines of coordinates, the position encodings of the DETR family. Computed in f64, since the
// angles of far cells have many turns.
#pragma once

#include <vector>

#include "core/runtime/kernel.h"
#include "core/types/feature_levels.h"

namespace saccade::kernels {

// x f32 [..] -> y f32 [.., C]: channels 2i and 2i + 1 are the sine and cosine of 2 pi x / temperature^(2i /
// C). Contiguous.
inline Kernel<void(const Tensor& x, double temperature, Tensor& y)> sine_encoding{"sine_encoding"};

// The encodings of the cells of maps (Carion et al. 2020), whose valid parts are i64 [N, L, 2] as in
// feature_grid.h. maps: one f32 tensor per level, [N, H * W, C], or [1, H * W, C] if the valid part is that
// of image 0 in all images. The first half of the channels encodes y, the second x, each as (cell + 1 +
// offset) / (valid size + 1e-6) turns; cells in the padding repeat the last valid one.
inline Kernel<void(const Tensor& valid, const FeatureLevels& levels, double offset, double temperature,
                   std::vector<Tensor>& maps)>
    sine_maps{"sine_maps"};

}  // namespace saccade::kernels
