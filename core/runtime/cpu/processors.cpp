#include "core/runtime/cpu/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

namespace saccade {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The quota that one control group sets itself, in processors.
double quota_of(const std::string& group) {
  std::string quota = "max";
  double period = 0;
  if (!(std::ifstream(group + "/cpu.max") >> quota >> period)) {
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group + "/cpu.cfs_period_us") >> period;
  }
  double micros = std::strtod(quota.c_str(), nullptr);  // "max" and "-1" are none
  return micros > 0 && period > 0 ? micros / period : kUnlimited;
}

// The smallest quota of the group that `path` names below `mount` and of all groups around it.
double smallest_quota(const std::string& mount, std::filesystem::path path) {
  double smallest = quota_of(mount);
  for (; path.has_relative_path(); path = path.parent_path())
    smallest = std::min(smallest, quota_of(mount + path.string()));
  return smallest;
}

}  // namespace

int available_processors() {
  cpu_set_t mask;
  int count = sched_getaffinity(0, sizeof mask, &mask) == 0
                  ? CPU_COUNT(&mask)
                  : static_cast<int>(std::thread::hardware_concurrency());
  // Lines of "number:controllers:path"; version 2 has no controllers there.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string number, controllers, path; std::getline(groups, number, ':') &&
                                              std::getline(groups, controllers, ':') &&
                                              std::getline(groups, path);) {
    double quota = kUnlimited;
    if (controllers.empty()) quota = smallest_quota("/sys/fs/cgroup", path);
    if (controllers == "cpu" || controllers == "cpu,cpuacct")
      quota = smallest_quota("/sys/fs/cgroup/" + controllers, path);
    if (quota < count) count = static_cast<int>(std::ceil(quota));
  }
  return std::max(count, 1);
}

}  // namespace saccade
