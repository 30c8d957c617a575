// Text from outside: names and messages that may hold any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace saccade {

// Bytes of the character of UTF-8 that the text begins with: 1 to 4; 0 when it begins with none (RFC 3629).
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);
// Of one character.
char32_t code_point(std::string_view character);

// Safe on a terminal and in a log, on one line: control characters, DEL, those of U+0080 to U+009F and of
// text direction, and bytes that are not UTF-8 become \n, \t, \x1b, \u202e and the like; all else stays.
std::string escaped(std::string_view text);
// The same of several lines: newlines stay.
std::string escaped_lines(std::string_view text);
// With small letters for the capital ones of ASCII, in every locale (a Turkish one has another small letter
// for "I").
std::string lower_case(std::string text);
// A name as it may appear in a message: escaped, and cut after about 120 bytes.
std::string printable(std::string_view name);
// A word as a shell takes it: in quotes where it must be.
std::string shell_word(const std::string& word);
// A message as one line of bounded length.
std::string one_line(std::string_view message);

}  // namespace saccade
