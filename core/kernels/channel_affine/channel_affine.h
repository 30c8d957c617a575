// y = act(x * scale + shift) over the columns of [R, C]. Contiguous; x, y, dy, dx have one floating dtype T;
// scale and shift [C] have acc_t<T>.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

inline Kernel<void(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y)>
    channel_affine_forward{"channel_affine_forward"};
// `saved` is x if saves_slope(act), otherwise y (undefined for kNone).
inline Kernel<void(const Tensor& dy, const Tensor& saved, const Tensor& scale, const Tensor& shift,
                   Activation act, Tensor& dx)>
    channel_affine_backward{"channel_affine_backward"};

// y = relu(x * scale + shift + residual), where residual is like x.
inline Kernel<void(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& residual,
                   Tensor& y)>
    affine_add_relu_forward{"affine_add_relu_forward"};
// The gradients of x and the residual; at most one of them may be undefined.
inline Kernel<void(const Tensor& dy, const Tensor& y, const Tensor& scale, Tensor& dx, Tensor& dresidual)>
    affine_add_relu_backward{"affine_add_relu_backward"};

}  // namespace saccade::kernels
