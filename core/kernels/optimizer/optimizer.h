// The optimizer's arithmetic over many tensors in one pass. All tensors are f32, contiguous and on one
// device.
#pragma once

#include <span>

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// One parameter of a fused step. For SGD, exp_avg is the momentum buffer (undefined without momentum).
struct OptimizerItem {
  Tensor value, grad, exp_avg, exp_avg_sq;
  double learning_rate = 0, weight_decay = 0;
  int64_t step = 1;  // this parameter's updates, counting this one
  Tensor average;    // of the values; adamw_step moves it too where it is defined
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

// norm (f64, one element, on the gradients' device) = sqrt(sum of the squares of all elements of all grads),
// NaN when a guard (f32: the losses) holds a number that is not finite. Blocks of fixed size are summed in
// f64 in a fixed order: the result depends on neither threads nor timing.
inline Kernel<void(Tensor& norm, std::span<const Tensor> grads, std::span<const Tensor> guards)>
    gradient_norm{"gradient_norm"};

// A norm that is not finite makes the following three do nothing: the device decides, and no host has to
// wait.

// AdamW (Loshchilov & Hutter 2019) in PyTorch's order, on gradients g = scale * grad:
//   p *= 1 - lr * decay;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
// with scale = min(1, max_norm / (norm + 1e-6)) as in clip_grad_norm_, or 1 when max_norm is 0. Then the
// item's average += average_weight * (p - average).
inline Kernel<void(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                   const AdamWOptions& options, double average_weight)>
    adamw_step{"adamw_step"};

// SGD as PyTorch's: g = scale * grad + decay * p;  m = momentum * m + g (m = g at the first step);  p -= lr *
// m.
inline Kernel<void(const Tensor& norm, double max_norm, std::span<OptimizerItem> items, double momentum)>
    sgd_step{"sgd_step"};

// average += weight * (value - average), for each pair.
inline Kernel<void(const Tensor& norm, std::span<Tensor> averages, std::span<const Tensor> values,
                   double weight)>
    ema_update{"ema_update"};

}  // namespace saccade::kernels
