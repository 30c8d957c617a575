#include "tests/cuda_emulator/block_order.h"

#include <algorithm>

namespace saccade::emulator {
namespace {

// Whether, within one block, everything that `first` did comes before the current place of `second`.
bool ordered_within(const Observer& first, const Observer& second) {
  return first.thread == second.thread || first.block_epoch < second.block_epoch;
}

}  // namespace

void BlockOrder::start_launch() {
  fenced_ = false;
  arrivals_.clear();
}

void BlockOrder::start_block(unsigned threads) {
  seen_.clear();
  fences_.assign(threads, 0);
}

void BlockOrder::fence(Observer& who) {
  fenced_ = true;
  who.fences = ++fences_[who.thread];
}

void BlockOrder::atomic(const void* address, const Observer& who) {
  if (!fenced_) return;
  std::vector<Arrival>& here = arrivals_[address];
  seen_.push_back({address, here.size(), who});
  here.push_back({who, fences_});
}

bool BlockOrder::before(const Observer& writer, const Observer& who) const {
  return std::ranges::any_of(seen_, [&](const Seen& seen) {
    if (fences_[seen.who.thread] == seen.who.fences || !ordered_within(seen.who, who)) return false;
    const std::vector<Arrival>& all = arrivals_.at(seen.address);
    return std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seen.arrivals),
                       [&](const Arrival& a) {
                         return a.who.block == writer.block && writer.fences < a.fences[writer.thread] &&
                                ordered_within(writer, a.who);
                       });
  });
}

BlockOrder& block_order() {
  static auto* order = new BlockOrder;
  return *order;
}

}  // namespace saccade::emulator
