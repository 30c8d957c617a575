// Hands values from one thread to another, a few at a time, so that memory stays bounded
// whichever side is slower.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace saccade {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t most) : most_(most) {}

  // Waits for room. Returns false if the queue is closed.
  bool push(T value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < most_ || closed_; });
    if (closed_) return false;
    waiting_.push_back(std::move(value));
    changed_.notify_all();
    return true;
  }
  // Does not wait: drops the oldest value if there is no room. Returns how many, or nothing if closed.
  std::optional<size_t> push_newest(T value) {
    std::lock_guard lock(mutex_);
    if (closed_) return std::nullopt;
    const size_t dropped = waiting_.size() >= most_;
    if (dropped) waiting_.pop_front();
    waiting_.push_back(std::move(value));
    changed_.notify_all();
    return dropped;
  }
  // Waits for the next value; returns nothing at the end. Rethrows the failure of the other side after all
  // values that came before it.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty() || closed_; });
    if (waiting_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return std::nullopt;
    }
    std::optional<T> value(std::move(waiting_.front()));
    waiting_.pop_front();
    changed_.notify_all();
    return value;
  }
  // Ends the queue; values that wait can still be taken.
  void close(std::exception_ptr failure = nullptr) {
    std::lock_guard lock(mutex_);
    closed_ = true;
    if (!failure_) failure_ = std::move(failure);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> waiting_;
  size_t most_;
  bool closed_ = false;
  std::exception_ptr failure_;
};

}  // namespace saccade
