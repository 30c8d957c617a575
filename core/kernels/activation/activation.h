// Activations as separate passes, and their backward, which also computes the column sums for a bias
// gradient.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y = act(z), and slope = act'(z) unless it is undefined or !saves_slope(act); all [M, N], contiguous, of one
// floating dtype. One of y and slope may be z.
inline Kernel<void(Activation act, const Tensor& z, Tensor& y, Tensor& slope)> activation_forward{
    "activation_forward"};
// dz = dy * act'(z), all [M, N], contiguous and of one floating dtype, except that dz may be bf16 if the
// others are f32; dz may be dy. `saved` is the slope or y, as saves_slope says (undefined for kNone). dz may
// be undefined if only the sums are wanted. bias_grad [N] (acc_t of the dtype; may be undefined) becomes the
// column sums of dz before rounding, summed over row blocks of fixed size.
inline Kernel<void(Activation act, const Tensor& dy, const Tensor& saved, Tensor& dz, Tensor& bias_grad)>
    activation_backward{"activation_backward"};

}  // namespace saccade::kernels
