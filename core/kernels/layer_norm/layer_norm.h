// Layer normalisation (Ba, Kiros, Hinton 2016) over the rows of [M, C], of x or of x + residual. Contiguous;
// x, residual, sum, y and their gradients have one floating dtype T; weight, bias [C], mean, rstd [M] have
// acc_t<T>.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// residual and sum (= x + residual, rounded to T; the statistics are of it) are both defined or neither.
inline Kernel<void(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                   double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd)>
    layer_norm_forward{"layer_norm_forward"};
// x is the normalised input (the sum if there was a residual). Any of dx, dweight, dbias may be undefined.
inline Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias)>
    layer_norm_backward{"layer_norm_backward"};

// The same for residual + x, where each element of x is first dropped with probability p (kernels::dropout);
// p is 0 for no dropout. x may be narrower than residual, whose dtype y and sum have.
struct RowDropout {
  double p = 0;
  uint64_t key = 0, call = 0, first = 0;
};
inline Kernel<void(const Tensor& x, const RowDropout& dropout, const Tensor& residual, const Tensor& weight,
                   const Tensor& bias, double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd)>
    dropout_norm_forward{"dropout_norm_forward"};
// dresidual is for the residual, dx for x in x's dtype. Any of dx, dweight, dbias may be undefined.
inline Kernel<void(const Tensor& dy, const Tensor& sum, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, const RowDropout& dropout, Tensor& dresidual, Tensor& dx,
                   Tensor& dweight, Tensor& dbias)>
    dropout_norm_backward{"dropout_norm_backward"};

}  // namespace saccade::kernels
