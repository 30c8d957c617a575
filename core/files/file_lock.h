// A file that one process at a time holds.
#pragma once

#include <string>

namespace saccade {

// The lock is one of the system, so it ends with its process however that ends; the file names the process to
// who waits. On file systems without locks nothing is held.
class FileLock {
 public:
  explicit FileLock(std::string path) : path_(std::move(path)) {}
  ~FileLock();  // removes the file where it is held
  FileLock& operator=(FileLock&&) = delete;

  // "" when it is held now, else who holds it: "process 12 on host". Throws InputError where the file cannot
  // be written.
  std::string take();

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace saccade
