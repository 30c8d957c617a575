// Which files folders hold, for who asks of thousands.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace saccade {

// Each folder is read once, when it is first asked about.
class KnownFiles {
 public:
  // As is_file of the folder's file.
  bool has(const std::string& folder, const std::string& name);
  bool has(const std::string& path);

 private:
  std::unordered_map<std::string, std::unordered_set<std::string>> folders_;
};

}  // namespace saccade
