#include "models/summary.h"

#include <map>
#include <set>

namespace saccade {
namespace {

class Counter final : public OpObserver {
 public:
  struct Cost {
    int64_t macs = 0, bytes = 0;
  };
  void observe(const Op& op) override {
    Cost& cost = costs[op.module];
    cost.macs += op.macs;
    // A view shares its input's memory.
    for (const Tensor& t : op.inputs)
      if (t.defined() && t.storage() == op.output.storage()) return;
    cost.bytes += static_cast<int64_t>(op.output.bytes());
  }
  std::map<const void*, Cost> costs;
};

// Lists modules depth first, each with the cost of itself and all its descendants.
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
  for (const auto& [module, cost] : counter.costs) {  // costs of modules that are not in the tree
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
    call(model, DetectorInput{.images = Var(Tensor::zeros({1, height, width, 3})), .sizes = {}});
  });
}

ModelSummary summarize(Classifier& model, int64_t height, int64_t width) {
  return summarize(model, [&] { call(model, Var(Tensor::zeros({1, height, width, 3}))); });
}

ModelSummary summarize(Segmenter& model, int64_t height, int64_t width) {
  return summarize(model, [&] { call(model, Var(Tensor::zeros({1, height, width, 3}))); });
}

}  // namespace saccade
