#include "core/tensor/control_groups.h"

#include <fstream>

namespace saccade {

std::vector<std::string> control_group_folders(std::string_view controller) {
  std::vector<std::string> folders;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/user.slice" or "9:cpu,cpuacct:/docker/1a2b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() &&
        ("," + controllers + ",").find("," + std::string(controller) + ",") == std::string::npos)
      continue;
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
