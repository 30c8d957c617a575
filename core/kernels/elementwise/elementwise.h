// Elementwise kernels of two and three tensors with broadcasting. Inputs have any strides and broadcast to
// the output's shape; outputs are contiguous and may be one of the inputs; all have one floating dtype.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

enum class BinaryOp { kAdd, kSub, kMul, kDiv, kMaximum, kMinimum, kAddRelu };
// y = op(a, b)
inline Kernel<void(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y)> binary{"binary"};
// y = a + b in f32, where a and b may be bf16.
inline Kernel<void(const Tensor& a, const Tensor& b, Tensor& y)> add_wide{"add_wide"};
// dx = dy * d op(a, b) / da (side 0) or db (side 1) in the output's shape, for kMul, kDiv, kMaximum and
// kMinimum
inline Kernel<void(BinaryOp op, int side, const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& dx)>
    binary_backward{"binary_backward"};
// y = mask ? value : x; mask is bool
inline Kernel<void(const Tensor& x, const Tensor& mask, double value, Tensor& y)> masked_fill{"masked_fill"};

}  // namespace saccade::kernels
