// recomputed(): a node that keeps only its inputs and runs the function again, with a graph, when its
// gradient is needed.
#include "autograd/engine.h"

namespace saccade {
namespace {

struct Recomputed {
  static constexpr const char* kName = "recomputed";
  static constexpr bool kHasOwnGraph = true;
  static constexpr auto macs = no_macs;

  std::function<Var(const Vars&)> fn;
  Vars originals;  // for requires_grad of each input
  ExecutionState state;

  Tensor forward(Context& ctx, const Tensors& in) {
    state = execution();
    Vars inputs;
    for (const Tensor& t : in) {
      ctx.save(t);
      inputs.push_back(t.defined() ? Var(t) : Var());
    }
    uint64_t calls;
    Tensor out;
    {
      NoGrad no_grad;
      out = fn(inputs).value();
      calls = execution().rng_calls;
    }
    execution().rng_calls = calls;  // random ops after this one draw other numbers
    return out;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    ExecutionScope scope;
    MemoryUse use = execution().memory_use;
    execution() = state;
    execution().grad_enabled = true;
    execution().memory_use = use;  // this is the backward pass
    Vars inputs;
    for (size_t i = 0; i < originals.size(); ++i) {
      const Tensor& t = ctx.saved(i);
      inputs.push_back(t.defined() ? Var(t, ctx.needs(i)) : Var());
    }
    Var out = fn(inputs);
    if (out.requires_grad()) saccade::backward(out, dy);
    Gradients grads;
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool missing = ctx.needs(i) && !inputs[i].grad().defined();
      grads.push_back(!ctx.needs(i) ? Tensor() : missing ? inputs[i].value().zeros_like() : inputs[i].grad());
    }
    return grads;
  }
};

}  // namespace

Var recomputed(const std::function<Var(const Vars&)>& fn, const Vars& inputs) {
  if (!execution().grad_enabled) return fn(inputs);
  // A scalar that always needs a gradient keeps the node in the graph if only parameters inside fn need one.
  Vars with_anchor = inputs;
  with_anchor.push_back(Var(Tensor::zeros({}), true));
  auto body = [fn](const Vars& v) { return fn(Vars(v.begin(), v.end() - 1)); };
  Recomputed op{body, with_anchor, {}};
  return run_op(std::move(op), with_anchor);
}

}  // namespace saccade
