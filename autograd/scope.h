// Observers of ops, and the scope that records no graph.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor/execution.h"
#include "core/tensor/tensor.h"

namespace saccade {

// The attributes of an op besides its inputs, by name: for observers that write ops down.
// An op with attributes lists them in
//   void describe(OpAttributes& to) const;
// which run_op calls before forward, but only if there is an observer.
class OpAttributes {
 public:
  using Value = std::variant<int64_t, double, std::vector<int64_t>, Tensor>;
  OpAttributes& add(std::string_view name, Value value) {
    entries_.emplace_back(name, std::move(value));
    return *this;
  }
  OpAttributes& add(std::string_view name, const Shape& shape) {
    return add(name, std::vector<int64_t>(shape.begin(), shape.end()));
  }
  // Returns null if there is none of this name and type.
  template <class T>
  const T* find(std::string_view name) const {
    for (const auto& [key, value] : entries_)
      if (key == name) return std::get_if<T>(&value);
    return nullptr;
  }
  const std::vector<std::pair<std::string, Value>>& all() const { return entries_; }

 private:
  std::vector<std::pair<std::string, Value>> entries_;
};

// Sees every op that runs while it is execution().observer (the summary counts with it; the diagnosis of a
// bad loss looks for the first bad op).
class OpObserver {
 public:
  struct Op {
    std::string_view name;
    const std::vector<Tensor>& inputs;
    const Tensor& output;
    int64_t macs;        // multiply-accumulates of its forward (docs/complexity.md)
    const void* module;  // execution().module
    const OpAttributes& attributes;
  };
  virtual ~OpObserver() = default;
  virtual void observe(const Op& op) = 0;
  // Sees what kernels compute from an op's output outside the graph (observe_kernel); macs are not counted.
  virtual void observe_kernel(const Op&) {}
};

// Must be called where a model leaves the graph and returns with something derived from its inputs, such as
// the best tokens or the sines of boxes. Without it an exporter could not know where the output comes from.
inline void observe_kernel(std::string_view name, const std::vector<Tensor>& inputs, const Tensor& output,
                           const OpAttributes& attributes) {
  if (OpObserver* observer = execution().observer)
    observer->observe_kernel({name, inputs, output, 0, execution().module, attributes});
}

// Records no graph within the block.
class NoGrad : ExecutionScope {
 public:
  NoGrad() { execution().grad_enabled = false; }
};

}  // namespace saccade
