// Loops over CPU threads (OpenMP, the pool that oneDNN uses too). Work is cut by index, never by timing, so
// results do not depend on the thread count as long as no two indices write the same place.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace saccade {

// For tests: with ignore_grain even tiny loops are cut over all threads.
struct ParallelDebug {
  bool ignore_grain = false;
};
inline ParallelDebug& parallel_debug() {
  static ParallelDebug debug;
  return debug;
}

// f(begin, end) over [0, n) in contiguous chunks, one per thread; runs inline when n < 2 * grain. Throws what f throws, of
// several exceptions one.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (parallel_debug().ignore_grain) grain = 1;
  int64_t threads = std::min<int64_t>(omp_get_max_threads(), n / std::max<int64_t>(grain, 1));
  if (threads <= 1 || omp_in_parallel()) {
    f(int64_t{0}, n);
    return;
  }
  std::exception_ptr thrown;
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    int64_t count = omp_get_num_threads(), i = omp_get_thread_num();
    int64_t begin = n * i / count, end = n * (i + 1) / count;
    try {  // an exception that leaves a parallel region ends the program
      if (begin < end) f(begin, end);
    } catch (...) {
#pragma omp critical(saccade_parallel_for)
      thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace saccade
