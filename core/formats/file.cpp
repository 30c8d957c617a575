#include "core/formats/file.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/tensor/error.h"

namespace saccade {
namespace {

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

std::vector<uint8_t> read_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) fail_input("{}: is a folder, expected a file", path);
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_input("{}: cannot read the file: {}", path, std::strerror(errno));
  std::vector<uint8_t> bytes;
  auto size = std::filesystem::file_size(path, error);
  if (!error) bytes.reserve(size + 1);  // one more, so that the end is seen without growing
  constexpr size_t kChunk = size_t{1} << 16;
  for (;;) {
    size_t old = bytes.size();
    bytes.resize(std::max(old + kChunk, bytes.capacity()));
    size_t got = std::fread(bytes.data() + old, 1, bytes.size() - old, file.get());
    bytes.resize(old + got);
    if (got == 0) break;
  }
  if (std::ferror(file.get())) fail_input("{}: cannot read the file: {}", path, std::strerror(errno));
  return bytes;
}

void write_file(const std::string& path, std::span<const uint8_t> bytes) {
  static std::atomic<int> counter{0};
  std::string temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter++);
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) fail_input("{}: cannot write the file: {}", path, std::strerror(errno));
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  ok = std::fclose(file.release()) == 0 && ok;
  ok = ok && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!ok) {
    int reason = errno;
    std::remove(temporary.c_str());
    fail_input("{}: cannot write the file: {}", path, std::strerror(reason));
  }
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace saccade
