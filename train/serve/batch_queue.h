// A queue whose elements are processed in batches.
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

// Safe for any threads. Elements of the same kind can be computed together.
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

  // Takes the element that has waited longest and the next ones of its kind, up to `most` in all, in order of
  // arrival; the others stay. Waits for the first at most `patience`; returns nothing if none arrives.
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
