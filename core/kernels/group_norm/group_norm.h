// Group normalisation (Wu, He 2018) of [N, S, C]: statistics per sample and group of C / groups neighbouring
// channels. Contiguous; x, y and their gradients have one floating dtype T; weight, bias [C] and the
// statistics have acc_t<T>.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// mean, rstd: [N, groups]
inline Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                   Tensor& mean, Tensor& rstd)>
    group_norm_forward{"group_norm_forward"};
// Any of dx, dweight, dbias may be undefined.
inline Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias)>
    group_norm_backward{"group_norm_backward"};

}  // namespace saccade::kernels
