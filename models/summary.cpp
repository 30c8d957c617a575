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
  if (op == "grid_sample" || op == "sampled_position_bias") return out.numel() * 4;
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

// Lists modules depth first, each with its own cost and that of all below it.
class Lister {
 public:
  Lister(std::map<const void*, Counter::Cost>& costs, std::vector<ModuleCost>& list)
      : costs_(costs), list_(list) {}

  // Returns the index of the module in the list.
  size_t add(const Module& module, const std::string& name, int depth) {
    size_t index = list_.size();
    list_.push_back({.name = name,
                     .type = module.type_name(),
                     .depth = depth,
                     .parameters = module.parameter_count(),
                     .trainable = module.parameter_count(true)});
    fill(index, module);
    return index;
  }

 private:
  void fill(size_t index, const Module& module) {
    if (auto it = costs_.find(&module); it != costs_.end()) {
      list_[index].macs += it->second.macs;
      list_[index].activation_bytes += it->second.bytes;
      costs_.erase(it);
    }
    for (const auto& [local, child] : module.children()) {
      // A module with several names (a shared head) is listed and counted once, under its first name.
      if (!seen_.insert(child.get()).second) continue;
      if (local.empty()) {  // part of this module
        fill(index, *child);
        continue;
      }
      size_t below = add(*child, child_name(list_[index].name, local), list_[index].depth + 1);
      list_[index].macs += list_[below].macs;
      list_[index].activation_bytes += list_[below].activation_bytes;
    }
  }

  std::map<const void*, Counter::Cost>& costs_;
  std::vector<ModuleCost>& list_;
  std::set<const Module*> seen_;
};

}  // namespace

ModelSummary summarize(Module& model, const std::function<void()>& run) {
  bool was_training = model.training();
  model.set_training(false);
  Counter counter;
  {
    NoGrad no_grad;
    execution().observer = &counter;
    run();
  }
  model.set_training(was_training);
  ModelSummary summary;
  Lister(counter.costs, summary.modules).add(model, "", 0);
  ModuleCost& total = summary.modules.front();
  for (const auto& [module, cost] : counter.costs) {  // of modules that are not in the tree
    total.macs += cost.macs;
    total.activation_bytes += cost.bytes;
  }
  summary.parameters = total.parameters;
  summary.trainable = total.trainable;
  summary.macs = total.macs;
  summary.activation_bytes = total.activation_bytes;
  return summary;
}

ModelSummary summarize(Detector& model, int64_t height, int64_t width) {
  return summarize(model, [&] {
    model.forward({.images = Var(Tensor::zeros({1, height, width, 3})), .sizes = {}});
  });
}

ModelSummary summarize(Classifier& model, int64_t height, int64_t width) {
  return summarize(model, [&] { model.forward(Var(Tensor::zeros({1, height, width, 3}))); });
}

}  // namespace saccade
