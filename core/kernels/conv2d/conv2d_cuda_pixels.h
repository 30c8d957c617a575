// Every stride-th pixel: what a strided 1x1 convolution reads, so that it is a matrix product as well.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade::cuda {

// x [N, H, W, C], f32 or bf16 -> y [N, OH, OW, C]: y[n, h, w] = x[n, stride h, stride w]
void pick_pixels(const Tensor& x, int64_t stride, Tensor& y);
// Back: x[n, stride h, stride w] = y[n, h, w], and 0 between them.
void spread_pixels(const Tensor& y, int64_t stride, Tensor& x);

}  // namespace saccade::cuda
