#include "train/checkpoints/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

// Whether the path still names the open file.
bool is_at(const std::string& path, int file) {
  struct stat here {
  }, there{};
  return ::fstat(file, &here) == 0 && ::stat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

}  // namespace

RunLock::RunLock(const std::string& folder) : path_(folder + "/.lock") {
  for (;;) {
    file_ = open_descriptor(path_, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (file_ < 0) fail_input("{}: cannot write in the run folder: {}", folder, std::strerror(errno));
    const bool locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      const std::string owner = owner_of(file_);
      ::close(file_);
      fail_input("{}: {} is training in this folder; expected its end, or another --output", folder, owner);
    }
    // The holder before may have removed the file since it was opened.
    if (!locked || is_at(path_, file_)) break;
    ::close(file_);
  }
  char host[256] = "this machine";
  ::gethostname(host, sizeof(host) - 1);
  const std::string owner = fmt::format("process {} on {}\n", ::getpid(), host);
  // The text is for people only.
  [[maybe_unused]] bool written =
      ::ftruncate(file_, 0) == 0 && ::pwrite(file_, owner.data(), owner.size(), 0) > 0;
}

RunLock::~RunLock() {
  ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace saccade
