// Batch normalisation (Ioffe, Szegedy 2015) of the columns of [R, C], fused with an activation. Contiguous;
// x, y and their gradients have one floating dtype T, everything per channel [C] has acc_t<T>.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct BatchNormParams {
  bool training = true;
  Activation act = Activation::kNone;
  double momentum = 0.1, eps = 1e-5;
};

// y = act((x - mean) * rstd * weight + bias). In training, mean and variance are the batch's; the running
// ones move towards them by momentum (unbiased variance), and are unchanged if R = 0. Otherwise the running
// ones are used. Writes the mean and rstd that were used.
inline Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, const BatchNormParams& p,
                   Tensor& running_mean, Tensor& running_var, Tensor& y, Tensor& mean, Tensor& rstd)>
    batch_norm_forward{"batch_norm_forward"};
// Any of dx, dweight, dbias may be undefined.
inline Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& mean, const Tensor& rstd, const BatchNormParams& p, Tensor& dx,
                   Tensor& dweight, Tensor& dbias)>
    batch_norm_backward{"batch_norm_backward"};

// For statistics over the images of several processes. moments f64 [3, C]: R, the mean and the sum of squared
// deviations of each column.
inline Kernel<void(const Tensor& x, Tensor& moments)> batch_norm_moments{"batch_norm_moments"};
// Joins the moments [R, 3, C] of R processes in order: the mean and variance of all rows, and their number
// (rows, f64 [C]). The running ones move towards them by momentum as in batch_norm_forward.
inline Kernel<void(const Tensor& moments, double momentum, Tensor& running_mean, Tensor& running_var,
                   Tensor& mean, Tensor& variance, Tensor& rows)>
    batch_norm_join{"batch_norm_join"};
// dx in training for the rows of this process, with the statistics of all processes' rows: sums [R, 2, C] are
// the dbias and dweight of each process, as batch_norm_backward computes them.
inline Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& mean, const Tensor& rstd, const Tensor& sums, const Tensor& rows,
                   Activation activation, Tensor& dx)>
    batch_norm_backward_of_all{"batch_norm_backward_of_all"};

}  // namespace saccade::kernels
