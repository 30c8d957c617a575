// Elementwise kernels with broadcasting.
#pragma once

#include "core/kernel.h"

namespace saccade::kernels {

enum class BinaryOp { kAdd, kSub, kMul, kDiv, kMaximum, kMinimum, kAddRelu };
// y = op(a, b); a and b broadcast to y's shape; all of one floating dtype; any strides for a and b, y contiguous
// (y may be a or b itself).
inline Kernel<void(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y)> binary{"binary"};

}  // namespace saccade::kernels
