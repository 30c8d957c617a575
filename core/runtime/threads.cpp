#include "core/runtime/threads.h"

#include <omp.h>

#include <algorithm>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {

int max_threads() { return std::max(64, 8 * omp_get_num_procs()); }

void check_threads() {
  const int wanted = omp_get_max_threads();
  if (wanted > max_threads())
    fail_input("OMP_NUM_THREADS: {} threads, expected at most {} on this machine", wanted, max_threads());
  std::vector<std::thread> threads;  // all at a time, as OpenMP has them
  std::latch counted(1);
  std::string problem;
  try {
    for (int i = 1; i < wanted; ++i) threads.emplace_back([&] { counted.wait(); });
  } catch (const std::exception& e) {
    problem = e.what();
  }
  counted.count_down();
  for (std::thread& t : threads) t.join();
  if (!problem.empty())
    fail("only {} of {} threads can be started ({}); OMP_NUM_THREADS asks for fewer", threads.size() + 1,
         wanted, problem);
}

}  // namespace saccade
