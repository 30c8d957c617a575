#include "core/runtime/cuda/slow_path.h"

#include <cstdio>
#include <mutex>
#include <set>

namespace saccade::cuda {

void note_slow_path(const std::string& what) {
  constexpr size_t kMaxLines = 100;  // lines, where shapes change from step to step
  static std::mutex mutex;
  static auto* noted = new std::set<std::string>;  // never destroyed, as the plans
  std::lock_guard lock(mutex);
  if (noted->size() < kMaxLines && noted->insert(what).second)
    std::fprintf(stderr, "saccade: no library has %s, a slow kernel does it\n", what.c_str());
}

}  // namespace saccade::cuda
