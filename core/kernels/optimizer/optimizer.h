// The optimizers' arithmetic over many tensors in one pass: clipping, update and moving average. An optimizer
// is one file of this folder: a functor and its registration (see update.h). All tensors are f32, contiguous
// and on one device.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/runtime/kernel.h"
#include "core/runtime/registry.h"

namespace saccade::kernels {

// One parameter in a step.
struct OptimizerItem {
  Tensor value, grad;
  std::vector<Tensor> state;  // one for each of the optimizer's state names
  double learning_rate = 0, weight_decay = 0;
  int64_t step = 1;  // the number of this parameter's updates, including this one
  Tensor average;    // of the values; updated with them if defined
};

// Each optimizer reads those that it uses.
struct UpdateOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0.9;
};

// norm (f64, one element, on the gradients' device) = sqrt(sum of the squares of all elements of all grads),
// NaN if a guard (f32: the losses) holds a number that is not finite. Blocks of fixed size are summed in f64
// in a fixed order: the result depends on neither threads nor timing.
inline Kernel<void(Tensor& norm, std::span<const Tensor> grads, std::span<const Tensor> guards)>
    gradient_norm{"gradient_norm"};

// If the norm is not finite, the following two do nothing: the device decides, and no host has to wait.

// Updates every item with the gradients scale * grad, scale = min(1, max_norm / (norm + 1e-6)) as in
// clip_grad_norm_, or 1 if max_norm is 0. Then average += average_weight * (value - average).
using UpdateKernel = Kernel<void(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                                 const UpdateOptions& options, double average_weight)>;

// average += weight * (value - average), for each pair.
void ema_update(const Tensor& norm, std::span<const Tensor> averages, std::span<const Tensor> values,
                double weight);

struct OptimizerSpec {
  std::string name;
  std::string file;
  // The names of the tensors that it keeps for each parameter, as in "exp_avg.NAME" of a checkpoint.
  std::vector<std::string> (*state_names)(const UpdateOptions& options);
  const UpdateKernel* update;
};
inline Registry<OptimizerSpec>& optimizers() { return registry_of<OptimizerSpec>("optimizer"); }

// The kernel of an optimizer, to which each side adds its implementations. The pointer `name` is stored.
UpdateKernel& update_kernel(const char* name);

}  // namespace saccade::kernels
