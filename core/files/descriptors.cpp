#include "core/files/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace saccade {
namespace {

// Returns the descriptor, or a duplicate of 3 or more in its place.
int above_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  int other = duplicate_descriptor(descriptor);
  int reason = errno;
  ::close(descriptor);
  errno = reason;
  return other;
}

}  // namespace

void occupy_standard_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number: this one.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) std::_Exit(1);
  }
}

int open_descriptor(const std::string& path, int flags, int mode) {
  return above_standard_streams(::open(path.c_str(), flags | O_CLOEXEC, mode));
}

int duplicate_descriptor(int descriptor) { return ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); }

int own_descriptor(const std::string& path) {
  if (path == "/dev/stdin") return STDIN_FILENO;
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const char* end = path.data() + path.size();
    auto [stop, error] = std::from_chars(path.data() + folder.size(), end, number);
    return error == std::errc() && stop == end ? number : -1;
  }
  return -1;
}

}  // namespace saccade
