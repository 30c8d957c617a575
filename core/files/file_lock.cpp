#include "core/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/files/descriptors.h"
#include "core/files/text.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

std::string owner_of(int file) {
  char text[320] = "";
  const ssize_t bytes = ::pread(file, text, sizeof(text) - 1, 0);
  std::string owner(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  owner = printable(owner.substr(0, owner.find('\n')));
  return owner.empty() ? "another process" : owner;
}

// Returns whether the path still names the open file.
bool is_at(const std::string& path, int file) {
  struct stat here {
  }, there{};
  return ::fstat(file, &here) == 0 && ::stat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

}  // namespace

std::string FileLock::take() {
  for (;;) {
    const int file = open_descriptor(path_, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (file < 0)
      fail_input("{}: cannot write to the folder: {}", std::filesystem::path(path_).parent_path().string(),
                 std::strerror(errno));
    const bool locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      std::string owner = owner_of(file);
      ::close(file);
      return owner;
    }
    // The previous holder may have removed the file after it was opened.
    if (!locked || is_at(path_, file)) {
      file_ = file;
      break;
    }
    ::close(file);
  }
  char host[256] = "this machine";
  ::gethostname(host, sizeof(host) - 1);
  const std::string owner = fmt::format("process {} on {}\n", ::getpid(), host);
  // The text is for people only.
  [[maybe_unused]] bool written =
      ::ftruncate(file_, 0) == 0 && ::pwrite(file_, owner.data(), owner.size(), 0) > 0;
  return "";
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace saccade
