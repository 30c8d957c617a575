// What an executed op depends on besides its inputs. Scopes nest, belong to one thread and are opened by
// programs (the trainer, the evaluator, tests), never by layers.
#pragma once

#include <cstdint>

#include <string_view>
#include <vector>

#include "core/runtime/math_mode.h"
#include "core/tensor/tensor.h"

namespace saccade {

// Sees every op that runs in its scope (summary counts with it, the diagnosis of a bad loss looks for the
// first bad one).
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  // `module` identifies the innermost running module (see layers/module_scope.h); null outside of all.
  virtual void observe(std::string_view op, const std::vector<Tensor>& inputs, const Tensor& output,
                       const void* module) = 0;
};

struct ExecutionState {
  bool grad_enabled = true;
  // The dtype to which ops of policy kCompute cast their f32 inputs: f32 or bf16.
  DType compute = DType::kF32;
  // Whether f32 products may run on a GPU's tensor cores.
  MathMode math = MathMode::kExact;
  // Whether every run must give the same bits.
  bool deterministic = true;
  // Philox key of dropout and drop path, and the number of random ops run so far under it.
  uint64_t rng_key = 0;
  uint64_t rng_calls = 0;
  OpObserver* observer = nullptr;
  const void* module = nullptr;
};

// The state of this thread.
ExecutionState& execution();

// Saves the whole state and restores it at the end of the block; change execution() freely inside.
class ExecutionScope {
 public:
  ExecutionScope() : saved_(execution()) {}
  ~ExecutionScope() { execution() = saved_; }
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  ExecutionState saved_;
};

// No graph is recorded inside.
class NoGrad : ExecutionScope {
 public:
  NoGrad() { execution().grad_enabled = false; }
};

}  // namespace saccade
