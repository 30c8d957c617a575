// Layer normalisation (Ba, Kiros, Hinton 2016) over the rows of [M, C], of x or of x + residual. Contiguous;
// x, residual, sum, y and their gradients share one floating dtype T; weight, bias [C], mean, rstd [M] have
// acc_t<T>.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// residual and sum (= x + residual, rounded to T; the statistics are its) are both defined or both not.
inline Kernel<void(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                   double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd)>
    layer_norm_forward{"layer_norm_forward"};
// x is what was normalised (the sum when there was a residual). Any of dx, dweight, dbias may be undefined.
inline Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias)>
    layer_norm_backward{"layer_norm_backward"};

}  // namespace saccade::kernels
