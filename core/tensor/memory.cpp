#include "core/tensor/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace saccade {
namespace {

constexpr int64_t kUnknown = INT64_MAX;

// Returns the number after a name in a file of lines like "MemAvailable:  8123 kB" or "inactive_file 4096",
// or `otherwise` if the name is missing.
int64_t number_after(const std::string& path, std::string_view name, int64_t otherwise) {
  std::ifstream in(path);
  std::string word;
  int64_t value = 0;
  while (in >> word)
    if (word == name && in >> value) return value;
  return otherwise;
}

int64_t number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value ? value : kUnknown;  // "max" is not a number
}

// Returns what a control group leaves: its limit less what it holds and cannot reclaim. It can reclaim cached
// files, even those that the system counts as active, such as images that are read in every epoch.
int64_t left_in_group(const std::string& folder, const char* limit, const char* usage) {
  const int64_t most = number_in(folder + limit);
  if (most == kUnknown) return kUnknown;
  const int64_t used = number_in(folder + usage);
  const std::string statistics = folder + "/memory.stat";
  const int64_t cache =
      number_after(statistics, "inactive_file", 0) + number_after(statistics, "active_file", 0);
  return used == kUnknown ? most : std::max<int64_t>(0, most - used + cache);
}

int64_t left_in_groups() {
  int64_t left = kUnknown;
  for (const std::string& folder : control_group_folders("memory"))
    left = std::min({left, left_in_group(folder, "/memory.max", "/memory.current"),
                     left_in_group(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes")});
  return left;
}

int64_t left_of_addresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const int64_t pages = number_in("/proc/self/statm");
  if (pages == kUnknown) return kUnknown;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE));
}

// Returns what RLIMIT_DATA leaves. It counts privately written memory: heaps, stacks and anonymous mappings.
int64_t left_of_data() {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const int64_t used = number_after("/proc/self/status", "VmData:", kUnknown);
  if (used == kUnknown) return kUnknown;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used * 1024);
}

int64_t left_in_machine() {
  const int64_t free = number_after("/proc/meminfo", "MemAvailable:", kUnknown);
  if (free == kUnknown) return kUnknown;
  return (free + number_after("/proc/meminfo", "SwapFree:", 0)) * 1024;
}

}  // namespace

int64_t available_memory() {
  return std::min({left_in_machine(), left_in_groups(), left_of_addresses(), left_of_data()});
}

std::vector<std::string> control_group_folders(std::string_view controller) {
  std::vector<std::string> folders;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/user.slice" or "9:cpu,cpuacct:/docker/1a2b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string listed = fmt::format(",{},", controllers), wanted = fmt::format(",{},", controller);
    if (!controllers.empty() && listed.find(wanted) == std::string::npos) continue;
    const std::string top = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      folders.push_back(top + path);
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return folders;
}

}  // namespace saccade
