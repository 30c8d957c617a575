#include "autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/kernels/elementwise/elementwise.h"
#include "core/kernels/reduce/reduce.h"
#include "core/runtime/profile_range.h"

namespace saccade {

void Context::keep(const Tensor& t) { saved_.push_back({t, t.defined() ? t.storage()->version() : 0}); }

const Tensor& Context::saved(size_t i) const {
  SACCADE_CHECK(i < saved_.size(), "[{}] no saved tensor {}", name_, i);
  const Saved& s = saved_[i];
  SACCADE_CHECK(!s.tensor.defined() || s.tensor.storage()->version() == s.version,
                "[{}] a tensor saved for backward (number {}, shape {}) was changed in place", name_, i,
                s.tensor.shape());
  return s.tensor;
}

Gradients Context::empty_gradients(size_t n) const {
  Gradients grads(n);
  for (size_t i = 0; i < n; ++i)
    if (needs(i)) grads[i] = new_gradient(i, saved(i));
  return grads;
}

Tensor Context::new_gradient(size_t i, const Shape& shape, DType dtype, Device device) const {
  const VarState* leaf = edges_ ? edges_->at(i).leaf.get() : nullptr;
  if (leaf && leaf->grad_place.defined() && !leaf->grad.defined()) {
    const Tensor& place = leaf->grad_place;
    // A leaf that is two inputs of one op gets two gradients.
    const auto same = [&](const Edge& e) { return e.leaf.get() == leaf; };
    if (place.shape() == shape && place.dtype() == dtype && place.device() == device &&
        std::count_if(edges_->begin(), edges_->end(), same) == 1)
      return place;
  }
  return Tensor::empty(shape, dtype, device);
}

Context::RandomStream Context::random_stream() {
  if (!has_stream_) {
    ExecutionState& state = execution();
    stream_ = {state.rng_key, state.rng_calls++, state.sample_first, state.samples};
    has_stream_ = true;
  }
  return stream_;
}

Node::Node(Context context, const Vars& inputs) : context_(std::move(context)) {
  static std::atomic<uint64_t> counter{0};
  sequence_ = counter++;
  context_.edges_ = &edges_;
  edges_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!context_.needs(i)) continue;
    const auto& state = inputs[i].state();
    edges_[i] = {state->node, state->node ? nullptr : state, state->value.shape(), state->value.dtype()};
  }
}

Node::~Node() { release(); }

void Node::release() {
  context_.saved_.clear();
  released_ = true;
  // Destroying a long chain of nodes would recurse; unlink it step by step instead.
  std::vector<Edge> pending = std::move(edges_);
  edges_.clear();
  while (!pending.empty()) {
    std::shared_ptr<Node> node = std::move(pending.back().node);
    pending.pop_back();
    if (!node || node.use_count() != 1) continue;
    std::move(node->edges_.begin(), node->edges_.end(), std::back_inserter(pending));
    node->edges_.clear();
  }
}

namespace detail {

namespace {

// Ops that read the same activation share its copy. Parameters have shadows, or are cast anew so that no copy
// remains.
Tensor shared_in_bf16(VarState& s) {
  const std::shared_ptr<Storage>& storage = s.value.storage();
  if (s.value.dtype() != DType::kF32 || storage->bf16_shadow || (s.requires_grad && !s.node))
    return in_bf16(s.value);
  if (s.bf16_of.lock() != storage || s.bf16_version != storage->version() ||
      s.in_bf16.shape() != s.value.shape()) {
    s.in_bf16 = s.value.to(DType::kBF16);
    s.bf16_of = storage;
    s.bf16_version = storage->version();
  }
  return s.in_bf16;
}

}  // namespace

Tensors cast_inputs(std::span<const Cast> casts, const Vars& inputs) {
  auto cast_of = [&](size_t i) { return casts[std::min(i, casts.size() - 1)]; };
  DType widest_term = DType::kBF16;
  bool any_f64 = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !is_float(inputs[i].dtype()) || cast_of(i) == Cast::kSame) continue;
    any_f64 |= inputs[i].dtype() == DType::kF64;
    if (cast_of(i) == Cast::kWidest) widest_term = widest(widest_term, inputs[i].dtype());
  }
  auto cast = [&](const Var& v, Cast to) {
    const Tensor& t = v.value();
    if (!is_float(t.dtype()) || to == Cast::kSame) return t;
    if (any_f64) return t.to(DType::kF64);
    DType target = to == Cast::kF32 ? DType::kF32 : to == Cast::kWidest ? widest_term : execution().compute;
    return target == DType::kBF16 ? shared_in_bf16(*v.state()) : t.to(target);
  };
  Tensors values;
  values.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back(inputs[i].defined() ? cast(inputs[i], cast_of(i)) : Tensor());
  return values;
}

uint64_t needs_mask(const Vars& inputs) {
  SACCADE_CHECK(inputs.size() <= 64, "[autograd] {} inputs, expected at most 64", inputs.size());
  uint64_t mask = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad()) mask |= uint64_t{1} << i;
  return mask;
}

}  // namespace detail

namespace {

// Returns whether nobody else can see the gradient of a leaf.
bool owns_grad(const VarState& leaf) {
  return leaf.grad.unique() ||
         (leaf.grad.storage() == leaf.grad_place.storage() && leaf.grad.raw() == leaf.grad_place.raw());
}

// slot += term in `dtype`, in place if `owned`: nobody else can see the slot. Narrower terms are widened as
// they are added; the first term is stored as it comes.
void accumulate(Tensor& slot, const Tensor& term, DType dtype, bool owned) {
  Tensor g = widest(term.dtype(), dtype) == dtype ? term : term.to(dtype);
  if (!slot.defined()) {
    slot = g;
    return;
  }
  bool same = slot.dtype() == dtype, contiguous = slot.is_contiguous();
  Tensor sum = same && contiguous && owned ? slot : Tensor::empty(slot.shape(), dtype, slot.device());
  if ((!same || g.dtype() != dtype) && dtype == DType::kF32 && contiguous && g.is_contiguous())
    kernels::add_wide(slot, g, sum);
  else
    kernels::binary(kernels::BinaryOp::kAdd, slot.to(dtype), g.to(dtype), sum);
  slot = sum;
}

// Checks what a backward returned for input i, which needs a gradient.
void check_gradient(const Node& node, size_t i, const Tensor& g, bool finite) {
  const Shape& shape = node.edges()[i].shape;
  SACCADE_CHECK(g.defined(), "[backward] op {} returned no gradient for input {}", node.name(), i);
  SACCADE_CHECK(g.shape() == shape,
                "[backward] op {} returned a gradient of shape {} for input {} of shape {}", node.name(),
                g.shape(), i, shape);
  if (finite && !is_finite(g))
    fail("[backward] op {} made a non-finite gradient for its input {} of shape {}", node.name(), i, shape);
}

// Tracks which leaves of a graph still expect gradients.
class OpenLeaves {
 public:
  OpenLeaves(Node* root, const LeafObserver& done) : done_(done) {
    if (!root) return;
    std::vector<Node*> nodes{root};
    std::unordered_set<const Node*> seen{root};
    while (!nodes.empty()) {
      Node* node = nodes.back();
      nodes.pop_back();
      own_graphs_ += node->has_own_graph();
      for (const Edge& edge : node->edges()) {
        if (edge.leaf) ++terms_[edge.leaf.get()];
        if (edge.node && seen.insert(edge.node.get()).second) nodes.push_back(edge.node.get());
      }
    }
  }
  void given(VarState& leaf) {
    if (--terms_[&leaf] > 0) return;
    own_graphs_ > 0 ? waiting_.push_back(&leaf) : done_(leaf);
  }
  void walked(const Node& node) {
    if (!node.has_own_graph() || --own_graphs_ > 0) return;
    for (VarState* leaf : waiting_) done_(*leaf);
    waiting_.clear();
  }

 private:
  const LeafObserver& done_;
  std::unordered_map<const VarState*, int64_t> terms_;
  int64_t own_graphs_ = 0;
  std::vector<VarState*> waiting_;
};

// The gradient of the root: the seed, or 1 without one.
Tensor first_gradient(const Var& root, const Tensor& seed) {
  SACCADE_CHECK(root.defined() && root.requires_grad(), "[backward] the root does not require a gradient");
  if (!seed.defined()) {
    SACCADE_CHECK(root.value().numel() == 1, "[backward] a root of shape {} needs a seed gradient",
                  root.shape());
    return Tensor::full(root.shape(), 1.0, root.dtype(), root.device());
  }
  SACCADE_CHECK(seed.shape() == root.shape(), "[backward] seed of shape {} for a root of shape {}",
                seed.shape(), root.shape());
  return seed;
}

void run(const Var& root, const Tensor& seed, bool checked, const LeafObserver* observer = nullptr) {
  const Tensor start = first_gradient(root, seed);
  struct Pending {
    std::shared_ptr<Node> node;
    Tensor grad;
    DType dtype = DType::kF32;  // the dtype that the node expects
  };
  std::optional<OpenLeaves> leaves;
  if (observer) leaves.emplace(root.state()->node.get(), *observer);
  std::map<uint64_t, Pending, std::greater<>> queue;  // by order of creation, newest first
  auto give = [&](const Edge& edge, const Tensor& g) {
    if (edge.node) {
      Pending& p = queue[edge.node->sequence()];
      p.node = edge.node;
      p.dtype = edge.dtype;
      accumulate(p.grad, g, edge.dtype, p.grad.unique());
    } else {
      Tensor& grad = edge.leaf->grad;
      accumulate(grad, grad.defined() ? g : g.to(edge.dtype), edge.dtype,
                 grad.defined() && owns_grad(*edge.leaf));
      if (leaves) leaves->given(*edge.leaf);
    }
  };
  // Returns the sum to which the node's only gradient is added, if it already holds something of the same
  // dtype that nobody else sees.
  auto only_sum = [&](const Node& node) -> Tensor* {
    if (node.edges().size() != 1 || !node.context().needs(0)) return nullptr;
    const Edge& edge = node.edges()[0];
    Tensor* sum = nullptr;
    if (!edge.node) {
      sum = &edge.leaf->grad;
    } else if (auto it = queue.find(edge.node->sequence()); it != queue.end()) {
      sum = &it->second.grad;
    }
    const bool fits = sum && sum->defined() && sum->dtype() == edge.dtype && sum->is_contiguous();
    return fits && (edge.node ? sum->unique() : owns_grad(*edge.leaf)) ? sum : nullptr;
  };
  const auto& state = root.state();
  give({state->node, state->node ? nullptr : state, state->value.shape(), state->value.dtype()}, start);
  while (!queue.empty()) {
    Pending current = std::move(queue.begin()->second);
    queue.erase(queue.begin());
    Node& node = *current.node;
    SACCADE_CHECK(!node.released(), "[backward] the graph at op {} was already used by another backward",
                  node.name());
    if (current.grad.dtype() != current.dtype) current.grad = current.grad.to(current.dtype);
    bool added = false;
    Gradients grads = [&] {
      const ProfileRange range([&] { return std::string(node.name()) + " backward"; });
      Tensor* sum = checked ? nullptr : only_sum(node);
      added = sum && node.add_backward(current.grad, *sum);
      return added ? Gradients() : node.run_backward(current.grad);
    }();
    if (added) {
      for (size_t i = 0; leaves && i < node.edges().size(); ++i)
        if (node.context().needs(i) && node.edges()[i].leaf) leaves->given(*node.edges()[i].leaf);
      if (leaves) leaves->walked(node);
      node.release();
      continue;
    }
    current.grad = Tensor();
    SACCADE_CHECK(grads.size() == node.edges().size(), "[backward] op {} returned {} gradients for {} inputs",
                  node.name(), grads.size(), node.edges().size());
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!node.context().needs(i)) continue;
      check_gradient(node, i, grads[i], checked);
      Tensor g = std::move(grads[i]);
      grads[i] = Tensor();
      give(node.edges()[i], g);
    }
    if (leaves) leaves->walked(node);
    node.release();
  }
}

}  // namespace

void backward(const Var& root, const Tensor& seed) { run(root, seed, false); }
void backward(const Var& root, const LeafObserver& done) { run(root, {}, false, &done); }
void backward_checked(const Var& root, const Tensor& seed) { run(root, seed, true); }

}  // namespace saccade
