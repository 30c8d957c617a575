#include "core/runtime/cpu/processors.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "core/tensor/memory.h"

namespace saccade {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Returns 0 for text that is not a number, such as "max".
double number_of(const std::string& text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Returns the quota of one control group, in processors.
double quota_of(const std::string& group) {
  std::string quota = "max", length = "0";
  if (!(std::ifstream(group + "/cpu.max") >> quota >> length)) {
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group + "/cpu.cfs_period_us") >> length;
  }
  const double micros = number_of(quota), period = number_of(length);  // "max" and "-1" mean no quota
  return micros > 0 && period > 0 ? micros / period : kUnlimited;
}

}  // namespace

int available_processors() {
  cpu_set_t mask;
  int count = sched_getaffinity(0, sizeof mask, &mask) == 0
                  ? CPU_COUNT(&mask)
                  : static_cast<int>(std::thread::hardware_concurrency());
  for (const std::string& group : control_group_folders("cpu"))
    if (const double quota = quota_of(group); quota < count) count = static_cast<int>(std::ceil(quota));
  return std::max(count, 1);
}

}  // namespace saccade
