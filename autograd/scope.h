// Scopes of the execution state that only ops know.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor/execution.h"
#include "core/tensor/tensor.h"

namespace saccade {

// Sees every op that runs while it is execution().observer (summary counts with it, the diagnosis of a bad
// loss looks for the first bad one).
class OpObserver {
 public:
  struct Op {
    std::string_view name;
    const std::vector<Tensor>& inputs;
    const Tensor& output;
    int64_t macs;        // multiply-accumulates of its forward (docs/complexity.md)
    const void* module;  // execution().module
  };
  virtual ~OpObserver() = default;
  virtual void observe(const Op& op) = 0;
};

// No graph is recorded inside.
class NoGrad : ExecutionScope {
 public:
  NoGrad() { execution().grad_enabled = false; }
};

}  // namespace saccade
