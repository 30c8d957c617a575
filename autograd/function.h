// How a differentiable op is written. An op is a struct with its attributes, a forward and a backward:
//
//   struct Gelu {
//     static constexpr const char* kName = "gelu";
//     static constexpr Policy kPolicy = Policy::kSame;
//     // Saves what backward needs: ctx.save(x).
//     Tensor forward(Context& ctx, const Tensors& in) const;
//     // One gradient per input.
//     Gradients backward(const Context& ctx, const Tensor& dy) const;
//   };
//   Var gelu(const Var& x) { return run_op(Gelu{}, {x}); }
//
// backward *returns* gradients; the engine accumulates them in a fixed order. The gradient is that of
// dot(output, dy). A gradient may have another floating dtype than its input: the engine casts it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "autograd/scope.h"
#include "autograd/var.h"
#include "core/runtime/determinism.h"

namespace saccade {

// How the floating inputs of an op are cast before forward; integer and bool inputs pass untouched, f64 stays
// f64.
enum class Policy {
  kCompute,  // f32 and bf16 inputs become execution().compute (matrix products, convolutions, attention
             // values)
  kF32,      // bf16 inputs become f32 (losses, boxes, coordinates)
  kWidest,   // all take the widest dtype among them (add, mul, concat)
  kSame,     // each keeps its own (views, norms; the op itself deals with mixed dtypes)
};

class Context {
 public:
  // Keeps t for backward. Saving undefined tensors is allowed.
  void save(Tensor t);
  // The i-th saved tensor; throws when its storage was changed in place since.
  const Tensor& saved(size_t i) const;
  // Does input i need a gradient? Usable in both directions; false for absent inputs.
  bool needs(size_t i) const { return i < 64 && ((needs_ >> i) & 1u) != 0; }
  bool needs_any() const { return needs_ != 0; }
  // Key and call number of this op's random stream; fixed at forward, so backward redraws the same numbers.
  struct RandomStream {
    uint64_t key, call;
  };
  RandomStream random_stream();

 private:
  friend class Node;
  template <class Op>
  friend Var run_op(Op op, const Vars& inputs);
  struct Saved {
    Tensor tensor;
    uint32_t version;
  };
  std::vector<Saved> saved_;
  uint64_t needs_ = 0;
  bool has_stream_ = false;
  RandomStream stream_{};
  std::string_view name_;
};

// Where the gradient of one input goes: to the node that made it or to a leaf. Holds no activation: what
// backward does not save is freed as soon as the forward code drops it. All empty for an input that needs no
// gradient.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<VarState> leaf;
  Shape shape;
  DType dtype = DType::kF32;
};

// One executed op. Owns the saved tensors until its backward has run.
class Node {
 public:
  virtual ~Node();
  virtual Gradients run_backward(const Tensor& dy) = 0;
  std::string_view name() const { return context_.name_; }
  uint64_t sequence() const { return sequence_; }
  const std::vector<Edge>& edges() const { return edges_; }
  const Context& context() const { return context_; }
  bool released() const { return released_; }
  void release();  // drops saved tensors and edges

 protected:
  Node(Context context, const Vars& inputs);
  Context context_;

 private:
  std::vector<Edge> edges_;
  uint64_t sequence_;
  bool released_ = false;
};

namespace detail {
Tensors cast_inputs(Policy policy, const Vars& inputs);
uint64_t needs_mask(const Vars& inputs);

template <class Op>
class OpNode final : public Node {
 public:
  OpNode(Op op, Context context, const Vars& inputs) : Node(std::move(context), inputs), op_(std::move(op)) {}
  Gradients run_backward(const Tensor& dy) override {
    math_mode = execution().math;
    deterministic_kernels = execution().deterministic;
    return op_.backward(context_, dy);
  }

 private:
  Op op_;
};
}  // namespace detail

// Runs op on the inputs and records it when one of them needs a gradient. Undefined inputs stay undefined
// tensors.
template <class Op>
Var run_op(Op op, const Vars& inputs) {
  Context ctx;
  ctx.name_ = Op::kName;
  ctx.needs_ = execution().grad_enabled ? detail::needs_mask(inputs) : 0;
  Tensors values = detail::cast_inputs(Op::kPolicy, inputs);
  math_mode = execution().math;
  deterministic_kernels = execution().deterministic;
  Var out(op.forward(ctx, values));
  if (execution().observer) execution().observer->observe(Op::kName, values, out.value(), execution().module);
  if (ctx.needs_ != 0) {
    out.state()->requires_grad = true;
    out.state()->node = std::make_shared<detail::OpNode<Op>>(std::move(op), std::move(ctx), inputs);
  }
  return out;
}

}  // namespace saccade
