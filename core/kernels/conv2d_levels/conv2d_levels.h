// One convolution on the maps of a pyramid, with stride 1 and results as large as the maps: the weight is
// prepared once for all maps, and its gradient is one sum.
#pragma once

#include "core/kernels/conv2d/conv2d.h"
#include "core/types/feature_levels.h"

namespace saccade::kernels {

// Returns one level of rows [N * cells, C], which hold the maps of one level after another.
inline Tensor level_of_rows(const Tensor& rows, const FeatureLevels& levels, int64_t level) {
  const int64_t N = rows.dim(0) / levels.tokens(), begin = N * levels.start(level);
  const MapSize& map = levels[level];
  return rows.slice(0, begin, begin + N * map.cells()).reshape({N, map.height, map.width, rows.dim(1)});
}

// Windows are odd.
inline ConvParams same_size_conv(const Tensor& w) { return {.padding = w.dim(2) / 2}; }

// Like the kernels of conv2d.h; x, y and their gradients are rows.
inline Kernel<void(const Tensor& x, const FeatureLevels& levels, const Tensor& w, const Tensor& bias,
                   Activation act, Tensor& y)>
    conv2d_levels_forward{"conv2d_levels_forward"};
inline Kernel<void(const Tensor& dy, const FeatureLevels& levels, const Tensor& w, Tensor& dx)>
    conv2d_levels_backward_data{"conv2d_levels_backward_data"};
inline Kernel<void(const Tensor& dy, const Tensor& x, const FeatureLevels& levels, Tensor& dw)>
    conv2d_levels_backward_weight{"conv2d_levels_backward_weight"};

}  // namespace saccade::kernels
