#include "models/summary.h"

#include <algorithm>
#include <map>
#include <set>

namespace saccade {
namespace {

int64_t macs_of(std::string_view op, const std::vector<Tensor>& in, const Tensor& out) {
  if (op == "linear") return out.numel() * in[1].dim(1);
  if (op == "matmul") return out.numel() * in[0].dim(-1);
  if (op == "conv2d") return out.numel() * in[1].dim(1) * in[1].dim(2) * in[1].dim(3);
  if (op == "attention") {
    // [N, Q, E] x [N, S, E] scores and [N, Q, S] x [N, S, Ev] sums
    return in[0].numel() * in[1].dim(1) + out.numel() * in[1].dim(1);
  }
  if (op == "window_attention") {
    // The same inside every window, fillers too; a map smaller than the table's window is one window.
    const Shape& map = in[0].shape();
    int64_t window = 1;
    while (in[1].defined() && (2 * window - 1) * (2 * window - 1) < in[1].dim(0)) ++window;
    window = std::min({window, map[1], map[2]});
    auto filled = [&](int64_t size) { return (size + window - 1) / window * window; };
    return 2 * map[0] * filled(map[1]) * filled(map[2]) * window * window * out.dim(3);
  }
  if (op == "ms_deform_attn") {
    // offsets hold two numbers per sample; each sample weighs D channels of four taps and once more by
    // attention
    return in[2].numel() / 2 * in[0].dim(3) * 5;
  }
  if (op == "grid_sample") return out.numel() * 4;
  return 0;
}

class Counter final : public OpObserver {
 public:
  struct Cost {
    int64_t macs = 0, bytes = 0;
  };
  void observe(std::string_view op, const std::vector<Tensor>& in, const Tensor& out,
               const void* module) override {
    Cost& cost = costs[module];
    cost.macs += macs_of(op, in, out);
    // A view shares its input's memory.
    for (const Tensor& t : in)
      if (t.defined() && t.storage() == out.storage()) return;
    cost.bytes += static_cast<int64_t>(out.bytes());
  }
  std::map<const void*, Cost> costs;
};

// Adds the cost of a module and what is below it; returns its index in the list.
size_t walk(const Module& module, const std::string& name, int depth, const Counter& counter,
            std::set<const Module*>& seen, std::vector<ModuleCost>& list) {
  size_t index = list.size();
  ModuleCost cost{.name = name, .type = module.type_name(), .depth = depth};
  cost.parameters = module.parameter_count();
  cost.trainable = module.parameter_count(true);
  if (auto it = counter.costs.find(&module); it != counter.costs.end()) {
    cost.macs = it->second.macs;
    cost.activation_bytes = it->second.bytes;
  }
  list.push_back(cost);
  // A module with several names (a shared head) is listed and counted once, under its first name.
  for (const auto& [local, child] : module.children()) {
    if (!seen.insert(child.get()).second) continue;
    size_t i = walk(*child, child_name(name, local), depth + 1, counter, seen, list);
    list[index].macs += list[i].macs;
    list[index].activation_bytes += list[i].activation_bytes;
  }
  return index;
}

}  // namespace

ModelSummary summarize(Detector& model, int64_t height, int64_t width) {
  bool was_training = model.training();
  model.set_training(false);
  Counter counter;
  {
    NoGrad no_grad;
    execution().observer = &counter;
    model.forward({.images = Var(Tensor::zeros({1, height, width, 3})), .sizes = {}});
  }
  model.set_training(was_training);
  ModelSummary summary;
  std::set<const Module*> seen;
  walk(model, "", 0, counter, seen, summary.modules);
  const ModuleCost& total = summary.modules.front();
  summary.parameters = total.parameters;
  summary.trainable = total.trainable;
  summary.macs = total.macs;
  summary.activation_bytes = total.activation_bytes;
  return summary;
}

}  // namespace saccade
