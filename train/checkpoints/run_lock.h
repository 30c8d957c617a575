// One training a run folder.
#pragma once

#include <string>

namespace saccade {

// Holds FOLDER/.lock while it lives. The lock is one of the system, so it ends with its process however that ends; the file names the
// process. On file systems without locks nothing is held.
class RunLock {
 public:
  // Throws InputError naming the process that holds the folder.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace saccade
