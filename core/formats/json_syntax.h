// Whether text is JSON (RFC 8259), for the parts of a file that nobody reads:
// the parser only looks for their end.
#pragma once

#include <cstddef>
#include <string_view>

namespace saccade {

// Deeper nesting is refused.
inline constexpr size_t kMaxJsonDepth = 1024;

struct JsonFault {
  size_t at = 0;               // byte of the text
  const char* what = nullptr;  // nullptr: it is one value, with nothing but blanks around it
};
// The bytes of strings are taken for UTF-8, as the parser has made sure.
JsonFault check_json(std::string_view text);

}  // namespace saccade
