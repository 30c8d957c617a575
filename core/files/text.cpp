#include "core/files/text.h"

#include <fmt/format.h>

namespace saccade {

char32_t code_point(std::string_view character) {
  auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t code = first & (0x7Fu >> character.size());
  for (char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return code;
}

namespace {

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string escape(std::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t length = utf8_length(text);
    std::string_view character = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(character.size());
    auto byte = static_cast<unsigned char>(character[0]);
    if (length > 0 && (!is_control(code_point(character)) || (keep_newlines && byte == '\n')))
      out += character;
    else if (byte == '\n')
      out += "\\n";
    else if (byte == '\t')
      out += "\\t";
    else if (length <= 1)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code_point(character)));
  }
  return out;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // An overlong encoding, a surrogate, or a code beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F))
    return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string escaped(std::string_view text) { return escape(text, false); }

std::string escaped_lines(std::string_view text) { return escape(text, true); }

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 120;
  if (name.size() <= kLongest) return escaped(name);
  size_t end = kLongest;  // not inside a character
  while (end > kLongest - 3 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return escaped(name.substr(0, end)) + "...";
}

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string given_flags(const std::vector<std::pair<const char*, bool>>& flags) {
  std::string names;
  for (const auto& [flag, given] : flags)
    if (given) names += (names.empty() ? "" : ", ") + std::string(flag);
  return names;
}

std::string count_of(int64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string count_among(int64_t count, int64_t all, const std::string& things, const std::string& one,
                        const std::string& many) {
  return fmt::format("{} of {} {} {}", count, all, things, count == 1 ? one : many);
}

std::string one_line(std::string_view message) {
  constexpr size_t kLongest = 8000, kEnd = 2000;
  std::string line = escaped(message);
  if (line.size() > kLongest)  // the cut may split characters
    line = escaped(line.substr(0, kLongest - kEnd) + " ... " + line.substr(line.size() - kEnd));
  return line;
}

}  // namespace saccade
