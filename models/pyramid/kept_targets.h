// What was made of a target before its step, by a thread of the loader, until the step asks for it.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>

namespace saccade {

template <class T>
class KeptTargets {
 public:
  using Pointer = std::shared_ptr<const T>;
  // Of too many the oldest go.
  void keep(Pointer made) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(made));
    if (kept_.size() > kMax) kept_.pop_front();
  }
  // The oldest for which is(T), or null; it goes if it is taken.
  template <class Is>
  Pointer find(const Is& is, bool is_taken) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find_if(kept_, [&](const Pointer& p) { return is(*p); });
    if (known == kept_.end()) return nullptr;
    Pointer found = *known;
    if (is_taken) kept_.erase(known);
    return found;
  }

 private:
  static constexpr size_t kMax = 256;
  std::mutex mutex_;
  std::deque<Pointer> kept_;
};

}  // namespace saccade
