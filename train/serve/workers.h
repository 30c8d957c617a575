// Threads that do what they are given: images are decoded and answers written beside the model's work.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "train/serve/batch_queue.h"

namespace saccade {

class Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  // What has been given is done first.
  ~Workers() {
    for (size_t i = 0; i < threads_.size(); ++i) tasks_.push("", {});
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(std::function<void()> task) { tasks_.push("", std::move(task)); }  // which must not throw

 private:
  void work() {
    for (;;)
      for (const std::function<void()>& task : tasks_.take(1, std::chrono::hours(1))) {
        if (!task) return;
        task();
      }
  }

  BatchQueue<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace saccade
