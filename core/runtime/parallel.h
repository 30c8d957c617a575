// Parallel loops over CPU threads (core/runtime/cpu/thread_team.h, which oneDNN uses too). Work is divided by
// index, never by timing, so results do not depend on the thread count as long as no two indices write the
// same place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <type_traits>

#include "core/runtime/cpu/thread_team.h"

namespace saccade {

// For tests: with ignore_grain even tiny loops are divided over all threads.
struct ParallelDebug {
  bool ignore_grain = false;
};
inline ParallelDebug& parallel_debug() {
  static ParallelDebug debug;
  return debug;
}

// Calls f(begin, end). It is compiled only once: in two copies the compiler might fuse different products
// with sums, and the bits would depend on the number of threads.
template <class F>
[[gnu::noinline, gnu::noclone]] void run_range(F& f, int64_t begin, int64_t end) {
  f(begin, end);
}

// Runs f(begin, end) over [0, n) in contiguous chunks, one per thread; on the calling thread alone if n < 2 *
// grain. If f throws, one of the exceptions is rethrown.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (parallel_debug().ignore_grain) grain = 1;
  const int64_t threads = std::min<int64_t>({thread_count(), max_threads(), n / std::max<int64_t>(grain, 1)});
  if (threads <= 1 || in_parallel()) {
    run_range(f, int64_t{0}, n);
    return;
  }
  struct Loop {
    std::remove_reference_t<F>& f;
    int64_t n, threads;
    std::mutex mutex;
    std::exception_ptr thrown;

    static void part(void* data, int i) {
      Loop& loop = *static_cast<Loop*>(data);
      const int64_t begin = loop.n * i / loop.threads, end = loop.n * (i + 1) / loop.threads;
      try {
        if (begin < end) run_range(loop.f, begin, end);
      } catch (...) {
        std::lock_guard lock(loop.mutex);
        loop.thrown = std::current_exception();
      }
    }
  } loop{f, n, threads, {}, {}};
  run_parts(static_cast<int>(threads), &Loop::part, &loop);
  if (loop.thrown) std::rethrow_exception(loop.thrown);
}

}  // namespace saccade
