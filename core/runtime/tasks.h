// Independent tasks on a few threads of their own, for work that may throw (files, images).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/runtime/cpu/thread_team.h"

namespace saccade {

// Runs f(i) for every i in [0, n) on `threads` threads (0: thread_count()). If tasks throw, the exception of
// the smallest failed index among those that ran is rethrown, and tasks not yet begun are skipped.
template <class F>
void run_tasks(int64_t n, int threads, F&& f) {
  if (threads <= 0) threads = thread_count();
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int64_t failed = n;
  auto work = [&] {
    for (int64_t i = next++; i < n; i = next++) {
      try {
        f(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
        next = n;
      }
    }
  };
  std::vector<std::jthread> others;
  for (int64_t t = 1; t < std::min<int64_t>(threads, n); ++t) others.emplace_back(work);
  work();
  others.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace saccade
