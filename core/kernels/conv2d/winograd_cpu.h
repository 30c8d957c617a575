// 3x3 convolutions by Winograd's algorithm (Lavin and Gray, arXiv:1509.09308). The bits do not depend on the
// number of threads, nor on the other images of a batch, except in the gradient of the weights, which is a
// sum over them.
#pragma once

#include <optional>

#include "core/kernels/matmul/routes_cpu.h"
#include "core/types/feature_levels.h"

namespace saccade::cpu {

enum class Winograd {
  // Stride 1, F(3x3, 3x3): 25 products for 9 positions instead of 81, with errors as large as those of plain
  // sums.
  kSame3,
  kSame4,  // stride 1, F(4x4, 3x3): 36 for 16 instead of 144, with up to twice the errors
  // Stride 2, F(4x4, 2x2) for every other row and column: 81 for 16 instead of 144, with errors as large as
  // those of plain sums.
  kStrided,
};

// Returns the kind of a route that uses Winograd's algorithm.
std::optional<Winograd> winograd_kind(ConvRoute route);

// Like the kernels of conv2d.h, `shift` as in conv2d_relu_shift, with padding 1, no dilation, one group, and
// input channels in multiples of kLanes; the output channels are arbitrary. `levels` is as in
// conv2d_levels.h; kStrided supports only single maps.
void winograd_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Winograd kind, Activation act,
                      Tensor& y, const FeatureLevels& levels = {}, float shift = 0);
void winograd_backward_data(const Tensor& dy, const Tensor& w, Winograd kind, Tensor& dx,
                            const FeatureLevels& levels = {});
void winograd_backward_weight(const Tensor& dy, const Tensor& x, Winograd kind, Tensor& dw,
                              const FeatureLevels& levels = {});

}  // namespace saccade::cpu
