// What waits to be computed, and goes together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace saccade {

// For any threads. Things of one kind can be computed together.
template <class T>
class BatchQueue {
 public:
  void push(std::string kind, T thing) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({std::move(kind), std::move(thing)});
    }
    came_.notify_one();
  }

  // The one that has waited longest and the next of its kind, `most` in all, in the order in which they came;
  // the others stay. Waits for the first at most so long; nothing when none comes.
  std::vector<T> take(size_t most, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    std::vector<T> taken;
    if (!came_.wait_for(lock, patience, [&] { return !waiting_.empty(); })) return taken;
    const std::string kind = waiting_.front().kind;
    std::deque<Waiting> rest;
    for (Waiting& w : waiting_) {
      if (taken.size() < most && w.kind == kind)
        taken.push_back(std::move(w.thing));
      else
        rest.push_back(std::move(w));
    }
    waiting_ = std::move(rest);
    return taken;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  struct Waiting {
    std::string kind;
    T thing;
  };

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Waiting> waiting_;
};

}  // namespace saccade
