#include "core/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/files/descriptors.h"
#include "core/files/text.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected = "expected the name of a file to write";

[[noreturn]] void cannot_write(const std::string& path, int reason) {
  fail_input("{}: cannot write the file: {}", path, std::strerror(reason));
}

std::string folder_of(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Follows `path` and the links it leads to; stops at a name of one of the program's own descriptors.
OutputTarget follow_links(const std::string& path) {
  OutputTarget target{.path = path};
  constexpr int kMaxLinks = 40;  // the system's own limit
  for (int links = 0; links <= kMaxLinks; ++links) {
    target.descriptor = own_descriptor(target.path);
    if (target.descriptor >= 0) return target;
    struct stat info {};
    if (::lstat(target.path.c_str(), &info) != 0) {
      if (errno == ENOENT) return target;
      cannot_write(path, errno);
    }
    if (!S_ISLNK(info.st_mode)) {
      target.old = info;
      return target;
    }
    std::error_code error;
    fs::path next = fs::read_symlink(target.path, error);
    if (error) cannot_write(path, error.value());
    target.path = (fs::path(target.path).parent_path() / next).string();
  }
  cannot_write(path, ELOOP);
}

void check_old_file(const std::string& path, const struct stat& old) {
  const char* kind = nullptr;
  if (S_ISDIR(old.st_mode)) kind = "a folder";
  if (S_ISFIFO(old.st_mode)) kind = "a FIFO";
  if (S_ISSOCK(old.st_mode)) kind = "a socket";
  if (S_ISBLK(old.st_mode)) kind = "a block device";
  if (kind != nullptr) fail_input("{}: is {}, {}", path, kind, kExpected);
  // Even a user who may write everything leaves files alone that nobody may write.
  constexpr mode_t kWritable = S_IWUSR | S_IWGRP | S_IWOTH;
  if ((old.st_mode & kWritable) == 0 || ::access(path.c_str(), W_OK) != 0)
    fail_input("{}: is read-only, {}", path, kExpected);
}

void check_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 && errno != ENOENT && errno != ENOTDIR) cannot_write(path, errno);
  if (!S_ISDIR(info.st_mode)) fail_input("{}: cannot write the file: there is no folder {}", path, folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail_input("{}: no permission to write to {}", path, folder);
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat x {
  }, y{};
  bool has_a = ::stat(a.c_str(), &x) == 0, has_b = ::stat(b.c_str(), &y) == 0;
  if (has_a && has_b) return x.st_dev == y.st_dev && x.st_ino == y.st_ino && !S_ISCHR(x.st_mode);
  if (has_a || has_b) return false;
  // If the working folder's own name is too long for the system, the names stay as they are.
  const auto whole = [](const std::string& path) {
    std::error_code error;
    const fs::path found = fs::weakly_canonical(path, error);
    return error || found.empty() ? fs::path(path).lexically_normal() : found;
  };
  return whole(a) == whole(b);
}

}  // namespace

OutputTarget output_target(const std::string& path) {
  if (path.empty()) fail_input("the name is empty, {}", kExpected);
  if (path.find('\0') != std::string::npos)
    fail_input("{}: a file name cannot contain a zero byte", escaped(path));
  OutputTarget target = follow_links(path);
  if (target.descriptor >= 0) {
    int flags = ::fcntl(target.descriptor, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) fail_input("{}: is not open for writing", path);
    return target;
  }
  if (target.old) check_old_file(target.path, *target.old);
  target.is_device = target.old && S_ISCHR(target.old->st_mode);
  if (!target.is_device) check_folder(target.path);
  return target;
}

void refuse_link(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode))
    fail_input("{}: is a symbolic link, which is not followed here; expected a {} of its own", path,
               fs::is_directory(path) ? "folder" : "file");
}

void check_outputs(std::initializer_list<NamedPath> outputs, std::initializer_list<NamedPath> inputs) {
  for (const NamedPath* output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    const std::string path = output_target(output->path).path;
    for (const NamedPath& input : inputs)
      if (!input.path.empty() && same_file(path, input.path))
        fail_input("{}: {} is the same file as {}, expected another name", output->path, output->name,
                   input.name);
    for (const NamedPath* other = outputs.begin(); other != output; ++other)
      if (!other->path.empty() && same_file(path, output_target(other->path).path))
        fail_input("{}: {} and {} are the same file, expected different ones", output->path, other->name,
                   output->name);
    // Some folders, such as those in /proc, accept no file even though their permissions allow it.
    const OutputFile begun(output->path);
  }
}

OutputFile::OutputFile(const std::string& path, Sync sync) : target_(output_target(path)), sync_(sync) {
  if (target_.descriptor >= 0) {
    std::fflush(nullptr);  // what was printed before comes first
    file_ = duplicate_descriptor(target_.descriptor);
  } else if (target_.is_device) {
    file_ = open_descriptor(target_.path, O_WRONLY | O_NOCTTY);
  } else {
    folder_ = folder_of(target_.path);
    static std::atomic<int> count{0};
    const mode_t mode = target_.old ? target_.old->st_mode & 0777 : 0666;
    // The name is short, so that it fits wherever the file's own name does.
    do {
      temporary_.emplace(
          (fs::path(folder_) / fmt::format(".saccade-{}-{}.tmp", ::getpid(), count++)).string());
      file_ = open_descriptor(temporary_->path(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                              static_cast<int>(mode));
      if (file_ < 0) temporary_->keep();  // not made, or not by us
    } while (file_ < 0 && errno == EEXIST);
  }
  if (file_ < 0) cannot_write(path, errno);
  if (target_.old && !target_.is_device) take_over_permissions(*target_.old);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

// As far as the system allows; if the group cannot be kept, it gets no permissions.
void OutputFile::take_over_permissions(const struct stat& old) const {
  struct stat made {};
  ::fstat(file_, &made);
  mode_t mode = old.st_mode & 0777;
  if ((made.st_uid != old.st_uid || made.st_gid != old.st_gid) &&
      ::fchown(file_, old.st_uid, old.st_gid) != 0 && made.st_gid != old.st_gid &&
      ::fchown(file_, static_cast<uid_t>(-1), old.st_gid) != 0)
    mode &= ~static_cast<mode_t>(S_IRWXG);
  if (::fchmod(file_, mode) != 0) stop("set the permissions of");
}

void OutputFile::stop(const char* what) const {
  fail("{}: cannot {} the file: {}", target_.path, what, std::strerror(errno));
}

// put(bytes, count, bytes before them) returns the number of bytes written.
template <class Put>
void OutputFile::write_all(const void* data, size_t bytes, const Put& put) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n =
        put(static_cast<const char*>(data) + done, std::min<size_t>(bytes - done, 1u << 30), done);
    if (n < 0 && errno != EINTR) stop("write");
    if (n > 0) done += static_cast<size_t>(n);
  }
}

void OutputFile::write(const void* data, size_t bytes) {
  write_all(data, bytes, [&](const char* p, size_t count, size_t) { return ::write(file_, p, count); });
}

void OutputFile::write_at(const void* data, size_t bytes, uint64_t offset) {
  write_all(data, bytes, [&](const char* p, size_t count, size_t done) {
    return ::pwrite(file_, p, count, static_cast<off_t>(offset + done));
  });
}

void OutputFile::commit() {
  if (sync_ == Sync::kYes && temporary_ && ::fsync(file_) != 0) stop("sync");
  if (::close(std::exchange(file_, -1)) != 0) stop("write");
  if (!temporary_) return;
  if (::rename(temporary_->path().c_str(), target_.path.c_str()) != 0) stop("rename");
  temporary_->keep();
  if (sync_ == Sync::kYes) sync_folder(folder_);
}

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

void sync_folder(const std::string& path) {
  const int folder = open_descriptor(path, O_RDONLY | O_DIRECTORY);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

void write_file(const std::string& path, std::span<const uint8_t> bytes) {
  OutputFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace saccade
