// Var: a tensor that may have a history. Differentiable ops take Vars; .value() leaves the graph explicitly.
// Copies of a Var are the same variable. No double backward, no forward mode.
#pragma once

#include <memory>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade {

class Node;

// Shared by all copies of a Var. Invariant: node != nullptr implies requires_grad.
struct VarState {
  Tensor value;
  Tensor grad;  // leaves only: the sum of all gradients since clear_grad()
  // Leaves only: memory that is reserved for grad, or undefined. Backward functions that make a new gradient
  // write it there (Context::new_gradient); nobody else may write there between clear_grad() calls.
  Tensor grad_place;
  std::shared_ptr<Node> node;
  bool requires_grad = false;
  // The value in bf16, kept for the next op after an op has cast it, and the storage and version from which
  // it was made.
  Tensor in_bf16 = {};
  std::weak_ptr<Storage> bf16_of = {};
  uint32_t bf16_version = 0;
};

class Var {
 public:
  Var() = default;  // undefined: represents an absent optional input
  explicit Var(Tensor value, bool requires_grad = false)
      : state_(std::make_shared<VarState>(VarState{std::move(value), {}, {}, nullptr, requires_grad})) {}

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const { return state_->value; }
  Tensor& value() { return state_->value; }  // for loaders and optimizers; bump the version when you write
  const Shape& shape() const { return value().shape(); }
  int64_t dim(int i) const { return value().dim(i); }
  int rank() const { return value().rank(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  bool requires_grad() const { return state_ && state_->requires_grad; }
  void set_requires_grad(bool on) { state_->requires_grad = on; }  // leaves only
  const Tensor& grad() const { return state_->grad; }              // undefined before backward()
  void set_grad(Tensor grad) { state_->grad = std::move(grad); }
  void clear_grad() { state_->grad = Tensor(); }
  void set_grad_place(Tensor place) { state_->grad_place = std::move(place); }
  Var detach() const { return Var(value(), false); }
  const std::shared_ptr<VarState>& state() const { return state_; }

 private:
  std::shared_ptr<VarState> state_;
};

using Vars = std::vector<Var>;
using Tensors = std::vector<Tensor>;
// The result of a backward function: one entry per input, undefined if the input needs none.
using Gradients = std::vector<Tensor>;

}  // namespace saccade
