// y = act(x * scale + shift) over the columns of [R, C]; act is kNone or kRelu. Contiguous; x, y, dy, dx
// share one floating dtype T; scale and shift [C] have acc_t<T>.
#pragma once

#include "core/kernels/activation/activation_type.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

inline Kernel<void(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y)>
    channel_affine_forward{"channel_affine_forward"};
// y is the forward's result (used by relu only; may be undefined otherwise)
inline Kernel<void(const Tensor& dy, const Tensor& y, const Tensor& scale, Activation act, Tensor& dx)>
    channel_affine_backward{"channel_affine_backward"};

}  // namespace saccade::kernels
