#include "train/optimizers/gradient_sum.h"

#include <algorithm>

#include "core/kernels/copy/copy.h"
#include "core/runtime/profile_range.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"

namespace saccade {

constexpr int64_t kSumStep = 64;  // elements, which are 256 bytes

GradientSum::GradientSum(ProcessGroup& group, std::vector<Var> parameters, int64_t block_bytes)
    : group_(group) {
  MemoryUseScope use(MemoryUse::kOptimizer);
  for (Var& p : parameters) {
    slot_of_.emplace(p.state().get(), slots_.size());
    slots_.push_back({std::move(p), {}});
  }
  const Device device = slots_.at(0).parameter.device();
  std::vector<int64_t> begins;
  int64_t size = 0;
  auto close = [&] {
    Block& block = blocks_.emplace_back();
    block.all = Tensor::zeros({round_up(size, kSumStep * group_.size())}, DType::kF32, device);
    size = 0;
  };
  size_t first = slots_.size();
  for (size_t i = slots_.size(); i-- > 0;) {
    begins.push_back(size);
    size += round_up(slots_[i].parameter.value().numel(), kSumStep);
    if (size * 4 < block_bytes && i > 0) continue;
    close();
    Block& block = blocks_.back();
    for (size_t k = first; k-- > i;) {
      Slot& slot = slots_[k];
      const int64_t begin = begins[first - 1 - k];
      slot.place =
          block.all.slice(0, begin, begin + slot.parameter.value().numel()).reshape(slot.parameter.shape());
      slot.parameter.set_grad_place(slot.place);
      slot.block = blocks_.size() - 1;
      slot.begin = begin;
      block.slots.push_back(k);
    }
    first = i;
    begins.clear();
  }
}

GradientSum::~GradientSum() {
  for (Slot& slot : slots_) slot.parameter.set_grad_place({});
}

void GradientSum::backward_and_start(const Var& loss) {
  next_ = 0;
  for (Block& block : blocks_) block.missing = block.slots.size();
  if (!loss.defined() || !loss.requires_grad()) return;
  backward(loss, [this](VarState& leaf) {
    const auto found = slot_of_.find(&leaf);
    if (found == slot_of_.end()) return;
    --blocks_[slots_[found->second].block].missing;
    start_blocks(true);
  });
}

// Copies all gradients that lie elsewhere with one launch instead of one each.
void GradientSum::fill(Block& block) {
  std::vector<Tensor> grads;
  std::vector<int64_t> begins;
  for (const size_t k : block.slots) {
    Slot& slot = slots_[k];
    if (!slot.parameter.grad().defined()) {
      slot.place.fill(0);
      continue;
    }
    if (slot.parameter.grad().raw() == slot.place.raw()) continue;
    grads.push_back(slot.parameter.grad());
    begins.push_back(slot.begin);
  }
  if (!grads.empty()) kernels::copy_parts(block.all, grads, begins);
}

void GradientSum::start_blocks(bool whole_only) {
  for (; next_ < blocks_.size(); ++next_) {
    Block& block = blocks_[next_];
    if (whole_only && block.missing > 0) return;
    fill(block);
    group_.start_sum(block.all);
  }
}

std::vector<std::string> GradientSum::finish(Tensor& losses, const std::string& word) {
  const ProfileRange range([] { return "gradients of all ranks"; });
  start_blocks(false);
  losses_ = Tensor::zeros({round_up(losses.numel(), kSumStep * group_.size())}, DType::kF32, losses.device());
  Tensor own = losses_.slice(0, 0, losses.numel());
  own.copy_from(losses);
  group_.start_sum(losses_);
  // Meanwhile, exchanges which parameters have a gradient at all.
  std::string used;
  for (const Slot& slot : slots_) used += slot.parameter.grad().defined() ? '1' : '0';
  std::vector<std::string> words = group_.exchange(used + word);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool any = std::ranges::any_of(words, [&](const std::string& w) { return w.at(i) == '1'; });
    slots_[i].parameter.set_grad(any ? slots_[i].place : Tensor());
  }
  for (std::string& w : words) w.erase(0, slots_.size());
  group_.wait();
  losses.copy_from(own);
  return words;
}

}  // namespace saccade
