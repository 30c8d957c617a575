// Converts images from bytes to the input of a network.
#pragma once

#include <array>

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// Per channel, in units of [0, 1]: ImageNet's means and deviations, which every official detector uses.
struct ImageNormalization {
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f};
  std::array<float, 3> std{0.229f, 0.224f, 0.225f};
};

// y[n,h,w,c] = (images[n,h,w,c] / 255 - mean[c]) / std[c], and 0 in the padding: outside the first sizes[n] =
// (height, width) pixels. images: u8 [N, H, W, 3]; sizes: i64 [N, 2] within H and W, or undefined for no
// padding; y: any float [N, H, W, 3]. All contiguous.
inline Kernel<void(const Tensor& images, const Tensor& sizes, const ImageNormalization& norm, Tensor& y)>
    normalize_image{"normalize_image"};

}  // namespace saccade::kernels
