// Error means a fault of the program or its environment (exit 1). InputError means a fault in what the user
// gave (flag, config, data, checkpoint, image; exit 2); its text is the one line that the user sees.
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
  // what() is a C string, which a zero byte in a name from a file or the user would end.
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

// Shortens the user's text for a message: a long text is cut and ends with "...".
inline std::string shortened(std::string_view text, size_t most = 80) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - 3;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a UTF-8 character
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

// SACCADE_CHECK(condition, "[op] what, got {}, expected ...", values...) throws Error if the condition is
// false.
#define SACCADE_CHECK(condition, ...) \
  do {                                \
    if (!(condition)) [[unlikely]] {  \
      ::saccade::fail(__VA_ARGS__);   \
    }                                 \
  } while (false)
