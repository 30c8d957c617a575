#include "core/files/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/files/descriptors.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "core/tensor/memory.h"

namespace saccade {
namespace {

[[noreturn]] void cannot_read(const std::string& path) {
  fail_input("{}: cannot read the file: {}", path, std::strerror(errno));
}

// Returns the stat(2) of a file that may be opened: a regular file, or a pipe of our own.
struct stat look_at(const std::string& path, const FileKind& kind) {
  if (path.empty()) fail_input("the name of {} is empty", kind.name);
  if (path.find('\0') != std::string::npos)
    fail_input("{}: a file name cannot contain a zero byte", escaped(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) cannot_read(path);
  const char* found = nullptr;
  if (S_ISDIR(info.st_mode))
    found = "a folder";
  else if (S_ISFIFO(info.st_mode))
    found = own_descriptor(path) >= 0 ? nullptr : "a FIFO";
  else if (S_ISSOCK(info.st_mode))
    found = "a socket";
  else if (!S_ISREG(info.st_mode))
    found = "a device";
  if (found != nullptr) fail_input("{}: is {}, expected {}", path, found, kind.name);
  return info;
}

// The system may promise memory that it does not have, and end the program when it is used.
void check_memory(const std::string& path, uint64_t read, uint64_t needed) {
  constexpr uint64_t kWorthALook = uint64_t{1} << 26;
  if (needed < kWorthALook) return;
  if (const auto left = static_cast<uint64_t>(available_memory()); needed > left)
    throw OutOfMemory(fmt::format(
        "{}: {} bytes read so far, and {} more do not fit into the {} bytes of memory that are left", path,
        read, needed, left));
}

// The length of a pipe is not known, so its bytes are read into pieces, which are never copied to make room.
struct Piece {
  std::unique_ptr<uint8_t[]> bytes;
  size_t size = 0, used = 0;
};

// Reads a pipe to its end.
std::vector<Piece> read_pipe(const std::string& path, const FileKind& kind) {
  const int descriptor = duplicate_descriptor(own_descriptor(path));
  if (descriptor < 0) cannot_read(path);
  struct Close {
    int descriptor;
    ~Close() { ::close(descriptor); }
  } closed_at_end{descriptor};
  constexpr size_t kFirst = size_t{1} << 16, kLargest = size_t{1} << 26;
  std::vector<Piece> pieces;
  uint64_t bytes = 0;
  for (;;) {
    if (bytes > kind.max_bytes)
      fail_input("{}: more than {} bytes, the limit for {}", path, kind.max_bytes, kind.name);
    if (pieces.empty() || pieces.back().used == pieces.back().size) {
      const size_t size = pieces.empty() ? kFirst : std::min(2 * pieces.back().size, kLargest);
      check_memory(path, bytes, size);
      pieces.push_back({std::make_unique_for_overwrite<uint8_t[]>(size), size});
    }
    Piece& last = pieces.back();
    const ssize_t got = ::read(descriptor, last.bytes.get() + last.used, last.size - last.used);
    if (got == 0) return pieces;
    if (got > 0) {
      last.used += static_cast<size_t>(got);
      bytes += static_cast<uint64_t>(got);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) cannot_read(path);
    pollfd wait{descriptor, POLLIN, 0};
    ::poll(&wait, 1, -1);
  }
}

}  // namespace

InputFile::InputFile(const std::string& path, const FileKind& kind) : path_(path) {
  // Opening some devices has side effects, so the file is checked before, and again after, when it can no
  // longer be replaced.
  if (!S_ISREG(look_at(path, kind).st_mode)) fail_input("{}: is a pipe, expected {}", path, kind.name);
  file_ = open_descriptor(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (file_ < 0) cannot_read(path);
  struct stat info {};
  std::string problem;
  if (::fstat(file_, &info) != 0 || !S_ISREG(info.st_mode))
    problem = fmt::format("is not a regular file, expected {}", kind.name);
  else if (static_cast<uint64_t>(info.st_size) > kind.max_bytes)
    problem = fmt::format("{} bytes, expected at most {} for {}", info.st_size, kind.max_bytes, kind.name);
  if (!problem.empty()) {
    ::close(file_);
    fail_input("{}: {}", path, problem);
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(file_); }

void InputFile::read_at(void* out, uint64_t bytes, uint64_t offset) const {
  char* p = static_cast<char*>(out);
  while (bytes > 0) {
    ssize_t n = ::pread(file_, p, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read(path_);
    if (n == 0) fail_input("{}: the file became shorter while it was read", path_);
    p += n;
    bytes -= static_cast<uint64_t>(n);
    offset += static_cast<uint64_t>(n);
  }
}

void InputFile::check_size() const {
  struct stat info {};
  if (::fstat(file_, &info) != 0) cannot_read(path_);
  if (static_cast<uint64_t>(info.st_size) != size_)
    fail_input("{}: the file changed while it was read, from {} bytes to {}", path_, size_, info.st_size);
}

void read_file(const std::string& path, const FileKind& kind, const std::function<void*(uint64_t)>& memory) {
  try {
    if (!S_ISFIFO(look_at(path, kind).st_mode)) {
      const InputFile file(path, kind);
      check_memory(path, 0, file.size());
      file.read_at(memory(file.size()), file.size(), 0);
      file.check_size();
      return;
    }
    std::vector<Piece> pieces = read_pipe(path, kind);
    uint64_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.used;
    auto* out = static_cast<uint8_t*>(memory(bytes));
    for (Piece& piece : pieces) {
      if (piece.used > 0) std::memcpy(out, piece.bytes.get(), piece.used);
      out += piece.used;
      piece.bytes.reset();
    }
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("{}: there is not enough memory to read it", path));
  }
}

std::vector<uint8_t> read_file(const std::string& path, const FileKind& kind) {
  std::vector<uint8_t> bytes;
  read_file(path, kind, [&](uint64_t size) {
    bytes.resize(size);
    return bytes.data();
  });
  return bytes;
}

void check_encoding(const std::string& path, std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv))
    fail_input("{}: is UTF-32 text, expected UTF-8", path);
  const auto is_zero = [&](size_t i) { return text[i] == '\0'; };
  // Without a mark, every second byte of letters is zero.
  const bool has_zeros =
      text.size() >= 4 && is_zero(0) != is_zero(1) && is_zero(0) == is_zero(2) && is_zero(1) == is_zero(3);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") || has_zeros)
    fail_input("{}: is UTF-16 text, expected UTF-8", path);
}

std::string with_line_feeds(std::string text) {
  if (text.find('\n') == std::string::npos) std::ranges::replace(text, '\r', '\n');
  return text;
}

std::string read_text(const std::string& path, const FileKind& kind) {
  std::string text;
  read_file(path, kind, [&](uint64_t size) {
    text.resize(size);
    return text.data();
  });
  if (kind.has_own_encodings) return text;
  check_encoding(path, text);
  return with_line_feeds(std::move(text));
}

namespace {

std::optional<std::string> real_path(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr), &std::free);
  if (!found) return std::nullopt;
  return std::string(found.get());
}

}  // namespace

NamedFolder::NamedFolder(const std::string& path, const std::vector<std::string>& links)
    : path_(path.empty() ? "." : path) {
  auto add = [&](const std::string& folder) {
    if (const std::optional<std::string> real = real_path(folder))
      inside_.push_back(real->ends_with('/') ? *real : *real + "/");
  };
  add(path_);
  for (const std::string& link : links) add(path_ + "/" + link);
}

std::string NamedFolder::refusal(const std::string& name) const {
  if (name.empty()) return "the file name is empty";
  if (name.find('\0') != std::string::npos) return "the file name contains a zero byte";
  const std::filesystem::path parts(name);
  if (parts.is_absolute()) return "the file name is absolute, expected one inside the folder";
  bool has_link = false;
  std::string path = path_;
  for (const std::filesystem::path& part : parts) {
    if (part == "..") return "the file name contains \"..\", expected one inside the folder";
    path += "/" + part.string();
    struct stat info {};
    if (!has_link && ::lstat(path.c_str(), &info) == 0) has_link = S_ISLNK(info.st_mode);
  }
  if (!has_link) return "";
  std::optional<std::string> target = real_path(path);
  if (!target) return "";  // it leads nowhere
  for (const std::string& inside : inside_)
    if (target->starts_with(inside)) return "";
  return fmt::format("a symbolic link leads out of the folder, to {}", *target);
}

}  // namespace saccade
