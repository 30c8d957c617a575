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
  using std::runtime_error::runtime_error;
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
