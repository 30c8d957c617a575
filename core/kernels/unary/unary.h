// Elementwise kernels of one tensor. Inputs and outputs are contiguous, of one floating dtype; y may be x.
#pragma once

#include "core/kernels/unary/unary_functions.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y = op(x)
inline Kernel<void(UnaryOp op, const Tensor& x, Tensor& y)> unary{"unary"};
// dx = dy * op'; saved is y or x, as kFromValue of the function says
inline Kernel<void(UnaryOp op, const Tensor& saved, const Tensor& dy, Tensor& dx)> unary_backward{
    "unary_backward"};

// y = x * scale + shift
inline Kernel<void(const Tensor& x, double scale, double shift, Tensor& y)> scale_shift{"scale_shift"};
// y = min(max(x, low), high); dx = dy inside and at the bounds
inline Kernel<void(const Tensor& x, double low, double high, Tensor& y)> clamp{"clamp"};
inline Kernel<void(const Tensor& x, double low, double high, const Tensor& dy, Tensor& dx)> clamp_backward{
    "clamp_backward"};
// y = log(max(x, eps) / max(1 - x, eps)) of x clamped to [0, 1]; dx is 0 outside [0, 1] and lacks a clamped
// term
inline Kernel<void(const Tensor& x, double eps, Tensor& y)> inverse_sigmoid{"inverse_sigmoid"};
inline Kernel<void(const Tensor& x, double eps, const Tensor& dy, Tensor& dx)> inverse_sigmoid_backward{
    "inverse_sigmoid_backward"};

}  // namespace saccade::kernels
