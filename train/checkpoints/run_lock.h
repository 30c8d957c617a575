// One training a run folder.
#pragma once

#include <string>

#include "core/files/file_lock.h"

namespace saccade {

// Holds FOLDER/.lock while it lives.
class RunLock {
 public:
  // Throws InputError naming the process that holds the folder.
  explicit RunLock(const std::string& folder);

 private:
  FileLock lock_;
};

}  // namespace saccade
