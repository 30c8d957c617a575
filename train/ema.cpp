#include "train/ema.h"

#include <algorithm>
#include <set>

#include "core/kernels/adamw.h"

namespace saccade {

Ema::Ema(const Module& model, double decay) : decay_(decay) {
  if (!(decay > 0 && decay < 1))
    fail_input("train.ema_decay: got {}, expected a number in (0, 1), or 0 for none", decay);
  std::set<const VarState*> seen;
  for (const NamedTensor& t : model.named_tensors()) {
    if (t.var.dtype() != DType::kF32 || !(t.is_buffer || t.var.requires_grad())) continue;
    if (seen.insert(t.var.state().get()).second) slots_.push_back({t.name, t.var, t.var.value().clone()});
  }
}

void Ema::update(const Tensor& norm) {
  SACCADE_CHECK(!swapped_, "[ema] update while the model carries the averages");
  if (slots_.empty()) return;
  auto t = static_cast<double>(updates_++);
  double d = std::min(decay_, (1 + t) / (10 + t));
  std::vector<Tensor> averages, values;
  for (Slot& s : slots_) {
    averages.push_back(s.average);
    values.push_back(s.var.value());
  }
  kernels::ema_update(norm, averages, values, 1 - d);
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
  for (Slot& s : slots_) {
    Tensor t = find(s.name);
    if (!t.defined() || t.dtype() != DType::kF32 || t.shape() != s.average.shape())
      fail_input("average of {}: {}, expected f32 {}", s.name,
                 t.defined() ? fmt::format("{} {}", name_of(t.dtype()), t.shape().to_string()) : "missing",
                 s.average.shape().to_string());
    s.average.copy_from(t.to(s.average.device()));
  }
}

}  // namespace saccade
