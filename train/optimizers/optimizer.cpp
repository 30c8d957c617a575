#include "train/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/kernels/optimizer/optimizer.h"
#include "core/tensor/execution.h"
#include "train/optimizers/flat.h"

namespace saccade {
namespace {

void check_options(const OptimizerOptions& o) {
  auto at_least_zero = [](const char* key, double v) {
    if (!(v >= 0 && std::isfinite(v)))
      fail_input("optimizer.{}: got {}, expected a number of at least 0", key, v);
  };
  auto fraction = [](const char* key, double v) {
    if (!(v >= 0 && v < 1)) fail_input("optimizer.{}: got {}, expected a number in [0, 1)", key, v);
  };
  if (o.type != "adamw" && o.type != "sgd")
    fail_input("optimizer.type: unknown optimizer \"{}\", expected adamw or sgd", o.type);
  at_least_zero("learning_rate", o.learning_rate);
  at_least_zero("weight_decay", o.weight_decay);
  at_least_zero("epsilon", o.epsilon);
  at_least_zero("clip_norm", o.clip_norm);
  fraction("beta1", o.beta1);
  fraction("beta2", o.beta2);
  fraction("momentum", o.momentum);
  for (const ParameterGroupOptions& g : o.groups) {
    at_least_zero("group.lr_mult", g.lr_mult);
    if (g.weight_decay) at_least_zero("group.weight_decay", *g.weight_decay);
  }
}

}  // namespace

Optimizer::Optimizer(std::vector<NamedTensor> parameters, const OptimizerOptions& options)
    : options_(options), adamw_(options.type == "adamw") {
  check_options(options);
  std::vector<std::regex> patterns;
  for (const ParameterGroupOptions& g : options.groups) {
    try {
      patterns.emplace_back(g.regex);
    } catch (const std::regex_error& e) {
      fail_input("optimizer.group: \"{}\" is no regular expression ({})", g.regex, e.what());
    }
  }
  std::vector<bool> used(patterns.size());
  for (NamedTensor& p : parameters) {
    const ParameterGroupOptions* group = nullptr;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (!std::regex_search(p.name, patterns[i])) continue;
      used[i] = true;
      if (!group) group = &options.groups[i];
    }
    if (group && group->frozen) p.var.set_requires_grad(false);
    if (!p.var.requires_grad()) continue;
    SACCADE_CHECK(p.var.dtype() == DType::kF32, "[optimizer] parameter {} is {}, expected f32", p.name,
                  name_of(p.var.dtype()));
    double decay = options.no_decay_1d && p.var.shape().rank() <= 1 ? 0 : options.weight_decay;
    slots_.push_back({p.name, p.var, options.learning_rate * (group ? group->lr_mult : 1),
                      group && group->weight_decay ? *group->weight_decay : decay});
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      fail_input("optimizer.group: \"{}\" matches no parameter of the model", options.groups[i].regex);
  if (slots_.empty()) fail_input("optimizer: every parameter is frozen, nothing is left to train");
  std::vector<Shape> shapes;
  for (const Slot& s : slots_) shapes.push_back(s.var.shape());
  auto fill = [&](MemoryUse use, auto&& place) {
    MemoryUseScope scope(use);
    std::vector<Tensor> flat = flat_zeros(shapes, slots_[0].var.device());
    for (size_t i = 0; i < slots_.size(); ++i) place(slots_[i], flat[i]);
  };
  fill(MemoryUse::kParameters, [](Slot& s, Tensor& t) {
    t.copy_from(s.var.value());
    s.var.value() = t;
    keep_bf16_shadow(t);
  });
  if (adamw_ || options_.momentum > 0) fill(MemoryUse::kOptimizer, [](Slot& s, Tensor& t) { s.exp_avg = t; });
  if (adamw_) fill(MemoryUse::kOptimizer, [](Slot& s, Tensor& t) { s.exp_avg_sq = t; });
}

void Optimizer::zero_grad() {
  for (Slot& s : slots_) s.var.clear_grad();
}

int64_t Optimizer::steps_of(const Slot& slot) const {
  return slot.step - (slot.in_last && !std::isfinite(*last_norm_.data<double>()));
}

HostCopy Optimizer::step(double lr_factor, std::span<const Tensor> guards, Ema* averages) {
  std::optional<Ema::Update> update;
  if (averages) update.emplace(averages->update());
  std::vector<Tensor> grads;
  std::vector<kernels::OptimizerItem> items;
  for (Slot& s : slots_) {
    s.step = steps_of(s);
    s.in_last = s.var.grad().defined();
    if (!s.in_last) continue;
    ++s.step;
    grads.push_back(s.var.grad().contiguous());
    items.push_back({s.var.value(), grads.back(), s.exp_avg, s.exp_avg_sq, s.lr * lr_factor, s.weight_decay,
                     s.step, update && adamw_ ? update->take(s.var) : Tensor()});
  }
  Tensor norm = Tensor::empty({1}, DType::kF64, slots_[0].var.device());
  kernels::gradient_norm(norm, grads, guards);
  if (adamw_)
    kernels::adamw_step(norm, options_.clip_norm, items, {options_.beta1, options_.beta2, options_.epsilon},
                        update ? update->weight() : 0);
  else
    kernels::sgd_step(norm, options_.clip_norm, items, options_.momentum);
  if (update) update->finish(norm);
  last_norm_ = HostCopy(norm);
  return last_norm_;
}

NamedValues Optimizer::state() const {
  NamedValues out;
  for (const Slot& s : slots_) {
    const int64_t steps = steps_of(s);
    if (steps == 0) continue;
    if (s.exp_avg.defined()) out.emplace_back((adamw_ ? "exp_avg." : "momentum.") + s.name, s.exp_avg);
    if (s.exp_avg_sq.defined()) out.emplace_back("exp_avg_sq." + s.name, s.exp_avg_sq);
    out.emplace_back("step." + s.name, Tensor::from(Shape{}, std::vector<int64_t>{steps}));
  }
  return out;
}

void Optimizer::load_state(const std::function<Tensor(const std::string&)>& find) {
  for (Slot& s : slots_) {
    Tensor step = find("step." + s.name);
    s.in_last = false;
    s.step = step.defined() ? static_cast<int64_t>(step.item()) : 0;
    auto fetch = [&](const char* key, Tensor& place) {
      if (s.step == 0) return place.fill(0);
      Tensor t = find(key + s.name);
      if (!t.defined() || t.dtype() != DType::kF32 || t.shape() != s.var.shape())
        fail_input("optimizer state {}{}: {}, expected f32 {}", key, s.name,
                   t.defined() ? fmt::format("{} {}", name_of(t.dtype()), t.shape().to_string()) : "missing",
                   s.var.shape().to_string());
      place.copy_from(t.to(place.device()));
    };
    if (adamw_) {
      fetch("exp_avg.", s.exp_avg);
      fetch("exp_avg_sq.", s.exp_avg_sq);
    } else if (options_.momentum > 0) {
      fetch("momentum.", s.exp_avg);
    }
  }
}

}  // namespace saccade
