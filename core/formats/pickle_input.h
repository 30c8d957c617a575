// The bytes of a pickle, read front to back.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace saccade {

// A stream of bytes that knows where it ends.
class PickleInput {
 public:
  // `read` copies bytes from the range [0, size) of the data; `path` is its name in errors.
  using Read = std::function<void(void* out, uint64_t bytes, uint64_t offset)>;
  PickleInput(std::string path, uint64_t size, Read read, uint64_t position = 0)
      : path_(std::move(path)), read_(std::move(read)), size_(size), next_(position) {}

  uint8_t byte();
  void copy(void* out, uint64_t bytes);
  std::string text(uint64_t bytes);
  std::string line();  // up to the newline, which is consumed but not returned
  template <class T>
  T fixed() {  // little-endian
    T value;
    copy(&value, sizeof(T));
    return value;
  }
  // Parses a whole text as a number.
  template <class T>
  T number(const std::string& text) const {
    T value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) damaged("not a number");
    return value;
  }
  int64_t decimal(std::string text) const {  // Python 2's end with an L
    if (!text.empty() && text.back() == 'L') text.pop_back();
    return number<int64_t>(text);
  }
  uint64_t position() const { return next_ - (buffer_.size() - taken_); }
  uint64_t size() const { return size_; }
  // Throws InputError that describes a problem at this position.
  [[noreturn]] void damaged(const std::string& what) const;

 private:
  void refill();
  std::string path_;
  Read read_;
  uint64_t size_, next_;  // next_: first byte after the buffer
  std::string buffer_;
  size_t taken_ = 0;  // consumed bytes of the buffer
};

}  // namespace saccade
