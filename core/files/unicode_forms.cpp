#include "core/files/unicode_forms.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "core/files/text.h"

namespace saccade {
namespace {

// Each line: the second character of pairs, in hexadecimal digits, then first characters, each followed by
// the character that the pair composes to (Unicode 14, UnicodeData.txt, without the composition exclusions;
// 16-bit characters only).
constexpr std::string_view kPairs =
#include "core/files/composed_pairs.txt.inc"
    ;

// Hangul syllables are composed of two or three letters by rule (Unicode 14, 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

struct Tables {
  std::unordered_map<uint64_t, char32_t> whole;  // by pair
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> parts;
};

uint64_t key_of(char32_t first, char32_t second) { return uint64_t{first} << 32 | second; }

const Tables& tables() {
  static const Tables kTables = [] {
    Tables t;
    std::string_view rest = kPairs;
    const auto next = [&] {
      const size_t length = utf8_length(rest);
      const char32_t code = code_point(rest.substr(0, length));
      rest.remove_prefix(length);
      return code;
    };
    while (!rest.empty()) {
      uint32_t second = 0;
      std::from_chars(rest.data(), rest.data() + 4, second, 16);
      for (rest.remove_prefix(5); rest.front() != '\n';) {
        const char32_t first = next(), whole = next();
        t.whole.emplace(key_of(first, second), whole);
        t.parts.emplace(whole, std::pair{first, second});
      }
      rest.remove_prefix(1);
    }
    return t;
  }();
  return kTables;
}

// Returns 0 if the two do not compose.
char32_t whole_of(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  if (first >= kSyllables && first < kSyllables + kLeadCount * kVowelCount * kTailCount &&
      (first - kSyllables) % kTailCount == 0 && second > kTails && second < kTails + kTailCount)
    return first + (second - kTails);
  const auto it = tables().whole.find(key_of(first, second));
  return it == tables().whole.end() ? 0 : it->second;
}

void add_parts(char32_t code, std::u32string& out) {
  if (code >= kSyllables && code < kSyllables + kLeadCount * kVowelCount * kTailCount) {
    const char32_t place = code - kSyllables;
    out.push_back(kLeads + place / (kVowelCount * kTailCount));
    out.push_back(kVowels + place / kTailCount % kVowelCount);
    if (place % kTailCount > 0) out.push_back(kTails + place % kTailCount);
    return;
  }
  const auto it = tables().parts.find(code);
  if (it == tables().parts.end()) {
    out += code;
    return;
  }
  add_parts(it->second.first, out);
  out += it->second.second;
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }) ||
         !is_utf8(text);
}

std::u32string decomposed_codes(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    add_parts(code_point(text.substr(0, length)), out);
    text.remove_prefix(length);
  }
  return out;
}

std::string utf8(const std::u32string& codes) {
  std::string out;
  for (const char32_t code : codes) {
    const int rest = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes after the first
    constexpr char32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kFirst[rest] | code >> (6 * rest));
    for (int i = rest - 1; i >= 0; --i) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  }
  return out;
}

}  // namespace

std::string decomposed(std::string_view text) {
  return is_plain(text) ? std::string(text) : utf8(decomposed_codes(text));
}

std::vector<std::string> spellings_of(const std::string& text) {
  std::vector<std::string> all{text};
  if (is_plain(text)) return all;
  for (std::string& other : std::array{composed(text), decomposed(text)})
    if (other != text) all.push_back(std::move(other));
  return all;
}

std::string composed(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::u32string out;
  for (const char32_t code : decomposed_codes(text)) {
    const char32_t whole = out.empty() ? 0 : whole_of(out.back(), code);
    if (whole > 0)
      out.back() = whole;
    else
      out += code;
  }
  return utf8(out);
}

}  // namespace saccade
