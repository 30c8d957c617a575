#include "core/formats/pickle_input.h"

#include <algorithm>
#include <cstring>

#include "core/tensor/error.h"

namespace saccade {

void PickleInput::damaged(const std::string& what) const {
  fail_input("{}: damaged pickle at byte {}: {}", path_, position(), what);
}

void PickleInput::refill() {
  constexpr uint64_t kBuffer = 1 << 16;
  uint64_t bytes = std::min(kBuffer, size_ - next_);
  if (bytes == 0) damaged("it ends too early");
  buffer_.resize(bytes);
  read_(buffer_.data(), bytes, next_);
  next_ += bytes;
  taken_ = 0;
}

uint8_t PickleInput::byte() {
  if (taken_ == buffer_.size()) refill();
  return static_cast<uint8_t>(buffer_[taken_++]);
}

void PickleInput::copy(void* out, uint64_t bytes) {
  if (bytes > size_ - position()) damaged("it ends too early");
  char* p = static_cast<char*>(out);
  while (bytes > 0) {
    if (taken_ == buffer_.size()) refill();
    uint64_t part = std::min<uint64_t>(bytes, buffer_.size() - taken_);
    std::memcpy(p, buffer_.data() + taken_, part);
    p += part;
    bytes -= part;
    taken_ += part;
  }
}

std::string PickleInput::text(uint64_t bytes) {
  if (bytes > size_ - position()) damaged("it ends too early");  // before memory is allocated
  constexpr uint64_t kLongest = uint64_t{64} << 20;  // bytes of a sparse file cost its writer nothing
  if (bytes > kLongest) damaged(fmt::format("{} bytes in one value, expected at most {}", bytes, kLongest));
  std::string out(bytes, '\0');
  copy(out.data(), bytes);
  return out;
}

std::string PickleInput::line() {
  constexpr size_t kLongest = 1 << 16;
  std::string out;
  for (char c = static_cast<char>(byte()); c != '\n'; c = static_cast<char>(byte())) {
    if (out.size() == kLongest) damaged(fmt::format("a line of more than {} bytes", kLongest));
    out += c;
  }
  return out;
}

}  // namespace saccade
