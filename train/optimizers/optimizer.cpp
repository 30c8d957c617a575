#include "train/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/tensor/execution.h"
#include "layers/name_patterns.h"
#include "train/optimizers/flat.h"

namespace saccade {

kernels::UpdateOptions update_options(const config::Optimizer& o) {
  return {.beta1 = o.beta1(), .beta2 = o.beta2(), .epsilon = o.epsilon(), .momentum = o.momentum()};
}

Optimizer::Optimizer(std::vector<NamedTensor> parameters, const config::Optimizer& options)
    : options_(options),
      spec_(kernels::optimizers().find(options.type(), "optimizer.type")),
      state_names_(spec_.state_names(update_options(options))) {
  std::vector<std::string> regexes;
  for (const config::ParameterGroup& g : options.group()) regexes.push_back(g.regex());
  NamePatterns patterns(regexes, "optimizer.group");
  std::map<int, int64_t>
      layers;  // number of the last layer, of the groups whose rate decays from layer to layer
  for (const NamedTensor& p : parameters)
    if (const int group = patterns.match(p.name); group >= 0 && options.group(group).layer_decay() != 1)
      layers[group] = std::max(layers[group], patterns.number(group, p.name));
  for (NamedTensor& p : parameters) {
    const int match = patterns.match(p.name);
    const config::ParameterGroup* group = match < 0 ? nullptr : &options.group(match);
    if (group && group->frozen()) p.var.set_requires_grad(false);
    if (!p.var.requires_grad()) continue;
    SACCADE_CHECK(p.var.dtype() == DType::kF32, "[optimizer] parameter {} is {}, expected f32", p.name,
                  name_of(p.var.dtype()));
    double decay = options.no_decay_1d() && p.var.shape().rank() <= 1 ? 0 : options.weight_decay();
    double rate = options.learning_rate() * (group ? group->lr_mult() : 1);
    if (const auto last = layers.find(match); last != layers.end())
      rate *=
          std::pow(group->layer_decay(), static_cast<double>(last->second - patterns.number(match, p.name)));
    slots_.push_back(
        {p.name, p.var, rate, group && group->has_weight_decay() ? group->weight_decay() : decay});
  }
  patterns.finish("parameter of the model");
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
  for (size_t k = 0; k < state_names_.size(); ++k)
    fill(MemoryUse::kOptimizer, [](Slot& s, Tensor& t) { s.state.push_back(t); });
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
    items.push_back({s.var.value(), grads.back(), s.state, s.lr * lr_factor, s.weight_decay, s.step,
                     update ? update->take(s.var) : Tensor()});
  }
  Tensor norm = Tensor::empty({1}, DType::kF64, slots_[0].var.device());
  kernels::gradient_norm(norm, grads, guards);
  (*spec_.update)(norm, options_.clip_norm(), items, update_options(options_), update ? update->weight() : 0);
  if (update) update->finish(norm);
  last_norm_ = HostCopy(norm);
  return last_norm_;
}

NamedValues Optimizer::state() const {
  NamedValues out;
  for (const Slot& s : slots_) {
    const int64_t steps = steps_of(s);
    if (steps == 0) continue;
    for (size_t k = 0; k < state_names_.size(); ++k)
      out.emplace_back(state_names_[k] + "." + s.name, s.state[k]);
    out.emplace_back("step." + s.name, Tensor::from(Shape{}, std::vector<int64_t>{steps}));
  }
  return out;
}

void Optimizer::load_state(const std::function<Tensor(const std::string&)>& find) {
  for (Slot& s : slots_) {
    Tensor step = find("step." + s.name);
    s.in_last = false;
    s.step = step.defined() ? static_cast<int64_t>(step.item()) : 0;
    for (size_t k = 0; k < state_names_.size(); ++k) {
      const std::string name = state_names_[k] + "." + s.name;
      if (s.step == 0)
        s.state[k].fill(0);
      else
        copy_stored("optimizer state " + name, find(name), s.state[k]);
    }
  }
}

}  // namespace saccade
