// A file that one process at a time can hold.
#pragma once

#include <string>

namespace saccade {

// Uses a lock of the system, so it ends with its process, however that ends. The file's text names the
// process for those who wait. On file systems without locks nothing is held.
class FileLock {
 public:
  explicit FileLock(std::string path) : path_(std::move(path)) {}
  ~FileLock();  // removes the file if it is held
  FileLock& operator=(FileLock&&) = delete;

  // Returns "" if it is now held, or else the holder: "process 12 on host". Throws InputError if the file
  // cannot be written.
  std::string take();

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace saccade
