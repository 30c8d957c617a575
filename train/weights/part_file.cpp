#include "train/weights/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/files/descriptors.h"
#include "core/files/file.h"
#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "train/config/text.h"
#include "train/weights/http.h"

namespace saccade {

PartFile::PartFile(const CachedWeights& cached, const std::string& url)
    : cached_(cached), url_(without_passwords(url)), sum_(std::make_unique<Sha256>()) {
  const std::string path = cached.part();
  file_ = open_descriptor(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666);
  struct stat info {};
  if (file_ < 0 || ::fstat(file_, &info) != 0)
    fail_input("{}: cannot write the file: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail_input("{}: is not a file, expected part of a download", path);
  std::error_code error;
  if (info.st_size > 0 && std::filesystem::exists(cached.part_origin(), error)) {
    const std::vector<std::string> lines = split(read_text(cached.part_origin(), kTextFile), '\n');
    int64_t total = -1;
    if (lines.size() >= 3 && lines[0] == url_ && !lines[1].empty() && parse_number(lines[2], total) &&
        (total < 0 || info.st_size <= total)) {
      size_ = static_cast<uint64_t>(info.st_size);
      validator_ = lines[1];
      total_ = total;
      add_file(*sum_, path, size_);
      return;
    }
  }
  if (::ftruncate(file_, 0) != 0) stop("write");
}

PartFile::~PartFile() {
  if (size_ == 0) remove();
  if (file_ >= 0) ::close(file_);
}

void PartFile::stop(const char* what) const {
  fail(
      "{}: cannot {} the file: {}; what has arrived is kept ({}), and `saccade weights fetch` continues from there",
      cached_.part(), what, std::strerror(errno), megabytes(size_));
}

void PartFile::restart(const std::string& validator, int64_t total) {
  if (::ftruncate(file_, 0) != 0) stop("write");
  sum_ = std::make_unique<Sha256>();
  size_ = 0;
  validator_ = validator;
  total_ = total;
  write_file(cached_.part_origin(), fmt::format("{}\n{}\n{}\n", url_, validator, total));
}

void PartFile::write(std::string_view bytes) {
  sum_->add(bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) stop("write");
    bytes.remove_prefix(static_cast<size_t>(n));
    size_ += static_cast<uint64_t>(n);
  }
}

std::string PartFile::sum() { return sum_->digits(); }

void PartFile::finish(const std::string& path) {
  if (::fsync(file_) != 0) stop("sync");
  if (::rename(cached_.part().c_str(), path.c_str()) != 0) stop("rename");
  sync_folder(std::filesystem::path(path).parent_path().string());
  std::remove(cached_.part_origin().c_str());
}

void PartFile::remove() {
  std::remove(cached_.part().c_str());
  std::remove(cached_.part_origin().c_str());
}

}  // namespace saccade
