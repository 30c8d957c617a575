// Errors. Error is a fault of the program or its environment (exit 1); InputError is a fault of what the
// user gave (flag, config, data, checkpoint, image; exit 2) and its text is the one line the user sees.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace saccade {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(without_zeros(message)) {}

 private:
  // what() is a string of C, which a zero byte of a file's or a user's name would end.
  static std::string without_zeros(std::string message) {
    for (size_t at = message.find('\0'); at != std::string::npos; at = message.find('\0', at))
      message.replace(at, 1, "\\x00");
    return message;
  }
};

class InputError : public Error {
 public:
  using Error::Error;
};

// The machine, or its GPU, has less memory than was asked for.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// Text of the user's for a message: its beginning, where it is long.
inline std::string shortened(std::string_view text, size_t most = 80) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - 3;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a character of UTF-8
  return std::string(text.substr(0, end)) + "...";
}

template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) {
  throw Error(fmt::format(format, std::forward<A>(args)...));
}

template <class... A>
[[noreturn]] void fail_input(fmt::format_string<A...> format, A&&... args) {
  throw InputError(fmt::format(format, std::forward<A>(args)...));
}

}  // namespace saccade

// SACCADE_CHECK(condition, "[op] what, got {}, expected ...", values...): throws Error when the condition is
// false.
#define SACCADE_CHECK(condition, ...) \
  do {                                \
    if (!(condition)) [[unlikely]] {  \
      ::saccade::fail(__VA_ARGS__);   \
    }                                 \
  } while (false)
