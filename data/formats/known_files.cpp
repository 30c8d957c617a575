#include "data/formats/known_files.h"

#include <filesystem>

namespace saccade {

namespace fs = std::filesystem;

bool KnownFiles::has(const std::string& folder, const std::string& name) {
  const auto [it, is_new] = folders_.try_emplace(folder);
  if (is_new) {
    std::error_code error;
    fs::directory_iterator entry(folder.empty() ? "." : folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
      if (std::error_code broken_link; entry->is_regular_file(broken_link) ||
                                       (!entry->is_directory(broken_link) && entry->exists(broken_link)))
        it->second.insert(entry->path().filename().string());
  }
  return it->second.contains(name);
}

bool KnownFiles::has(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return has("", path);
  return has(slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1));
}

}  // namespace saccade
