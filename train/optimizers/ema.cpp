#include "train/optimizers/ema.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/optimizer/optimizer.h"
#include "core/tensor/execution.h"
#include "train/optimizers/flat.h"

namespace saccade {

void copy_stored(const std::string& what, const Tensor& stored, Tensor& to) {
  if (!stored.defined() || stored.dtype() != DType::kF32 || stored.shape() != to.shape())
    fail_input("{}: {}, expected f32 {}", what,
               stored.defined() ? fmt::format("{} {}", name_of(stored.dtype()), stored.shape().to_string())
                                : "missing",
               to.shape().to_string());
  to.copy_from(stored.to(to.device()));
}

Ema::Ema(const Module& model, double decay, double tau) : decay_(decay), tau_(tau) {
  SACCADE_CHECK(tau >= 0, "[ema] tau {}, expected at least 0", tau);
  SACCADE_CHECK(decay > 0 && decay < 1, "[ema] decay {}, expected a number in (0, 1)", decay);
  std::vector<Shape> shapes;
  for (const NamedTensor& t : model.named_tensors()) {
    if (t.var.dtype() != DType::kF32 || !(t.is_buffer || t.var.requires_grad())) continue;
    if (!slot_of_.emplace(t.var.state().get(), slots_.size()).second) continue;
    slots_.push_back({t.name, t.var, {}});
    shapes.push_back(t.var.shape());
  }
  if (slots_.empty()) return;
  MemoryUseScope use(MemoryUse::kOptimizer);
  std::vector<Tensor> averages = flat_zeros(shapes, slots_[0].var.device());
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].average = averages[i];
    slots_[i].average.copy_from(slots_[i].var.value());
  }
}

Ema::Update Ema::update() {
  SACCADE_CHECK(!swapped_, "[ema] update while the model carries the averages");
  auto t = static_cast<double>(updates_++);
  if (tau_ > 0) return {*this, 1 - decay_ * -std::expm1(-(t + 1) / tau_)};
  return {*this, 1 - std::min(decay_, (1 + t) / (10 + t))};
}

Tensor Ema::Update::take(const Var& var) {
  auto it = ema_.slot_of_.find(var.state().get());
  if (it == ema_.slot_of_.end()) return {};
  taken_[it->second] = true;
  return ema_.slots_[it->second].average;
}

void Ema::Update::finish(const Tensor& norm) {
  std::vector<Tensor> averages, values;
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) continue;
    averages.push_back(ema_.slots_[i].average);
    values.push_back(ema_.slots_[i].var.value());
  }
  kernels::ema_update(norm, averages, values, weight_);
}

void Ema::swap() {
  for (Slot& s : slots_) std::swap(s.var.value(), s.average);
  swapped_ = !swapped_;
}

NamedValues Ema::state() const {
  SACCADE_CHECK(!swapped_, "[ema] state while the model carries the averages");
  NamedValues out;
  for (const Slot& s : slots_) out.emplace_back(s.name, s.average);
  return out;
}

void Ema::load_state(int64_t updates, const std::function<Tensor(const std::string&)>& find) {
  updates_ = updates;
  for (Slot& s : slots_) copy_stored("average of " + s.name, find(s.name), s.average);
}

}  // namespace saccade
