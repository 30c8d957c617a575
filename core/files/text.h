// Text from outside, such as names and messages, which may contain any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saccade {

// Returns the bytes of the UTF-8 character at the text's beginning, 1 to 4; 0 if there is none (RFC 3629).
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);
// Returns the code point of one character.
char32_t code_point(std::string_view character);

// Makes text safe for a terminal or a log, on one line: control characters, DEL, U+0080 to U+009F, marks of
// text direction, and bytes that are not UTF-8 become \n, \t, \x1b, \u202e and so on. All else stays.
std::string escaped(std::string_view text);
// The same for several lines: newlines are kept.
std::string escaped_lines(std::string_view text);
// Replaces the capital letters of ASCII by small ones, in every locale (a Turkish one has another small
// letter for "I").
std::string lower_case(std::string text);
// Returns a name for use in a message: escaped, and cut after about 120 bytes.
std::string printable(std::string_view name);
// Returns a word as a shell reads it: in quotes if it needs them.
std::string shell_word(const std::string& word);
// Returns the flags that are given, for a message: "--iou, --area-ranges".
std::string given_flags(const std::vector<std::pair<const char*, bool>>& flags);
// Returns "3 files are" or "1 file is".
std::string count_of(int64_t count, const std::string& one, const std::string& many);
// Returns "1 of 7 boxes has" or "3 of 7 boxes have".
std::string count_among(int64_t count, int64_t all, const std::string& things, const std::string& one,
                        const std::string& many);
// Returns a message as one line of bounded length.
std::string one_line(std::string_view message);

}  // namespace saccade
