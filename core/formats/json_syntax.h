// Checks whether text is JSON (RFC 8259), for the parts of a file that nobody reads: the parser only looks
// for their end.
#pragma once

#include <cstddef>
#include <string_view>

namespace saccade {

// Deeper nesting is an error.
inline constexpr size_t kMaxJsonDepth = 1024;

struct JsonFault {
  size_t at = 0;               // position in the text, in bytes
  const char* what = nullptr;  // nullptr if the text is one value with nothing but blanks around it
};
// Assumes that strings are UTF-8, which the parser has checked.
JsonFault check_json(std::string_view text);
// The same for text that a parser has refused: bytes that are not UTF-8 also count.
JsonFault fault_of_json(std::string_view text);

}  // namespace saccade
