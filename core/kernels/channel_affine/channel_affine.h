// y = act(x * scale + shift) over the columns of [R, C]. Contiguous; x, y, dy, dx share one floating dtype T;
// scale and shift [C] have acc_t<T>.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

inline Kernel<void(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y)>
    channel_affine_forward{"channel_affine_forward"};
// `saved` is x where saves_slope(act), otherwise y (undefined for none).
inline Kernel<void(const Tensor& dy, const Tensor& saved, const Tensor& scale, const Tensor& shift,
                   Activation act, Tensor& dx)>
    channel_affine_backward{"channel_affine_backward"};

// y = relu(x * scale + shift + residual), residual like x.
inline Kernel<void(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& residual,
                   Tensor& y)>
    affine_add_relu_forward{"affine_add_relu_forward"};
// Of x and the residual; either may be undefined, not both.
inline Kernel<void(const Tensor& dy, const Tensor& y, const Tensor& scale, Tensor& dx, Tensor& dresidual)>
    affine_add_relu_backward{"affine_add_relu_backward"};

}  // namespace saccade::kernels
