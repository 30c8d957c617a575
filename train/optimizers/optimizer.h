// The optimizer of a run: an update rule (core/kernels/optimizer) over named parameters in groups, with the
// clipping of the gradients and the moving averages folded in.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "configs/saccade.pb.h"
#include "core/formats/safetensors.h"
#include "core/kernels/optimizer/optimizer.h"
#include "core/runtime/host_copy.h"
#include "layers/module.h"
#include "train/optimizers/ema.h"

namespace saccade {

// Returns the options that the update rule reads.
kernels::UpdateOptions update_options(const config::Optimizer& options);

class Optimizer {
 public:
  // The first group that matches a parameter applies. Parameters of frozen groups lose their requires_grad
  // here, and the others move into one block of memory. Throws InputError for an unknown type, a bad regex, a
  // regex that matches no parameter, and if nothing is left to train.
  Optimizer(std::vector<NamedTensor> parameters, const config::Optimizer& options);

  // Runs one update with every group's rate times lr_factor. Parameters without a gradient stay unchanged (so
  // does their step count). Returns the global norm of the gradients before clipping (f64), on its way to the
  // host. If it, or a guard (f32: the losses), is not finite, nothing changes. The averages are updated too.
  HostCopy step(double lr_factor, std::span<const Tensor> guards = {}, Ema* averages = nullptr);
  void zero_grad();

  // The state by name: "exp_avg.NAME" and whatever else the type keeps, and "step.NAME" (i64), for parameters
  // that were updated at least once. The tensors share memory with the optimizer.
  NamedValues state() const;
  // Restores what state() returned. `find` returns an undefined tensor for a name that was not stored. Throws
  // InputError if a shape differs.
  void load_state(const std::function<Tensor(const std::string&)>& find);

  double learning_rate() const { return options_.learning_rate(); }
  std::vector<Var> parameters() const {  // those that are trained
    std::vector<Var> out;
    for (const Slot& s : slots_) out.push_back(s.var);
    return out;
  }
  int64_t parameter_count() const { return static_cast<int64_t>(slots_.size()); }

 private:
  struct Slot {
    std::string name;
    Var var;
    double lr, weight_decay;
    int64_t step = 0;
    bool in_last = false;       // whether it took part in the last step
    std::vector<Tensor> state;  // in the order of state_names_
  };
  // The number of updates; waits for the norm of the last step, which counts only if it was finite.
  int64_t steps_of(const Slot& slot) const;

  config::Optimizer options_;
  const kernels::OptimizerSpec& spec_;
  std::vector<std::string> state_names_;
  HostCopy last_norm_;
  std::vector<Slot> slots_;
};

}  // namespace saccade
