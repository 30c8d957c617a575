// How a differentiable op is written. An op is a struct with its attributes, a forward and a backward:
//
//   struct Gelu {
//     static constexpr const char* kName = "gelu";
//     static constexpr auto macs = no_macs;
//     // Only if an input is not taken as it is.
//     static constexpr std::array kCasts{Cast::kF32};
//     // Only if there are attributes (autograd/scope.h).
//     void describe(OpAttributes& to) const;
//     // Saves what backward needs: ctx.save(x).
//     Tensor forward(Context& ctx, const Tensors& in) const;
//     // One gradient per input.
//     Gradients backward(const Context& ctx, const Tensor& dy) const;
//   };
//   Var gelu(const Var& x) { return run_op(Gelu{}, {x}); }
//
// An op with one input whose gradient is zero except for a part may also have
//   bool add_backward(const Context& ctx, const Tensor& dy, Tensor& sum) const;
// which adds the gradient to an existing sum, contiguous and of dy's dtype, or returns false to refuse.
//
// backward *returns* gradients; the engine accumulates them in a fixed order. The gradient is that of
// dot(output, dy). A gradient may have another floating dtype than its input: the engine casts it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "autograd/scope.h"
#include "autograd/var.h"
#include "core/runtime/profile_range.h"

namespace saccade {

// The dtype to which an op's input is cast before forward. An op lists them in kCasts; the last one applies
// to all further inputs. Integer and bool inputs are not cast. If one of the inputs is f64, all that are cast
// become f64.
enum class Cast : uint8_t {
  kCompute,  // execution().compute: factors of products and convolutions, attention's values
  kF32,      // biases and statistics (added to f32 sums), losses, boxes, coordinates
  kWidest,   // the widest dtype among the inputs with this cast: terms of a sum, inputs of a norm
  kSame,     // its own dtype: all inputs of an op without kCasts
};
template <class Op>
inline constexpr auto kCastsOf = [] {
  if constexpr (requires { Op::kCasts; })
    return Op::kCasts;
  else
    return std::array{Cast::kSame};
}();

// The multiply-accumulates of an op without products. Other ops have
//   int64_t macs(const Tensors& in, const Tensor& out) const;
// with the cast inputs and the result of forward (docs/complexity.md).
inline constexpr auto no_macs = [](const Tensors&, const Tensor&) -> int64_t { return 0; };

struct Edge;

class Context {
 public:
  // Keeps tensors, which may be undefined, for backward, if there will be one.
  template <class... T>
  void save(const T&... tensors) {
    if (needs_any()) (keep(tensors), ...);
  }
  // Returns the i-th saved tensor. Throws if its storage was changed in place since it was saved.
  const Tensor& saved(size_t i) const;
  // Returns whether input i needs a gradient. Usable in both directions; false for absent inputs.
  bool needs(size_t i) const { return i < 64 && ((needs_ >> i) & 1u) != 0; }
  bool needs_any() const { return needs_ != 0; }
  // Returns the tensor to which backward writes the gradient of input i, if it returns that tensor or a view
  // of all of it: an empty tensor, or the memory that a leaf keeps for its gradient.
  Tensor new_gradient(size_t i, const Shape& shape, DType dtype, Device device) const;
  // The same for an input like the given tensor; undefined if no gradient is needed.
  Tensor new_gradient(size_t i, const Tensor& like) const {
    return needs(i) ? new_gradient(i, like.shape(), like.dtype(), like.device()) : Tensor();
  }
  // The same for the first n inputs, which must also be the first n saved tensors.
  Gradients empty_gradients(size_t n) const;
  // Key and call number of this op's random stream. Fixed in forward, so backward redraws the same numbers.
  struct RandomStream {
    uint64_t key, call;
    int64_t sample_first, samples;  // from the execution state
    // The index of the first of `count` equal parts of this process's samples among those of all processes.
    int64_t first_of(int64_t count) const { return samples > 0 ? count / samples * sample_first : 0; }
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
  void keep(const Tensor& t);
  std::vector<Saved> saved_;
  uint64_t needs_ = 0;
  bool has_stream_ = false;
  RandomStream stream_{};
  std::string_view name_;
  const std::vector<Edge>* edges_ = nullptr;  // of the node that owns this context
};

// The destination of one input's gradient: the node that made the input, or a leaf. Holds no activation: what
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
  virtual bool add_backward(const Tensor&, Tensor&) { return false; }
  // Whether its backward adds to leaves that are not among its inputs: true for ops with kHasOwnGraph.
  virtual bool has_own_graph() const = 0;
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
Tensors cast_inputs(std::span<const Cast> casts, const Vars& inputs);
uint64_t needs_mask(const Vars& inputs);

template <class Op>
class OpNode final : public Node {
 public:
  OpNode(Op op, Context context, const Vars& inputs) : Node(std::move(context), inputs), op_(std::move(op)) {}
  Gradients run_backward(const Tensor& dy) override { return op_.backward(context_, dy); }
  bool add_backward(const Tensor& dy, Tensor& sum) override {
    if constexpr (requires { op_.add_backward(context_, dy, sum); })
      return op_.add_backward(context_, dy, sum);
    else
      return false;
  }
  bool has_own_graph() const override {
    return requires { Op::kHasOwnGraph; };
  }

 private:
  Op op_;
};
}  // namespace detail

// Runs op on the inputs and records it if one of them needs a gradient. Undefined inputs become undefined
// tensors.
template <class Op>
Var run_op(Op op, const Vars& inputs) {
  Context ctx;
  ctx.name_ = Op::kName;
  ctx.needs_ = execution().grad_enabled ? detail::needs_mask(inputs) : 0;
  const ProfileRange range([] { return Op::kName; });
  Tensors values = detail::cast_inputs(kCastsOf<Op>, inputs);
  OpObserver* const observer = execution().observer;
  OpAttributes attributes;
  if constexpr (requires { op.describe(attributes); }) {
    if (observer) op.describe(attributes);
  }
  Var out(op.forward(ctx, values));
  if (observer)
    observer->observe({Op::kName, values, out.value(), std::as_const(op).macs(values, out.value()),
                       execution().module, attributes});
  if (ctx.needs_ != 0) {
    out.state()->requires_grad = true;
    out.state()->node = std::make_shared<detail::OpNode<Op>>(std::move(op), std::move(ctx), inputs);
  }
  return out;
}

}  // namespace saccade
