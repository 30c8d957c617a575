#include "core/formats/json_syntax.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/files/text.h"

namespace saccade {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Checker {
 public:
  explicit Checker(std::string_view text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {}

  JsonFault run() {
    bool ok = value();
    while (ok && !open_.empty()) ok = next_in_group();
    if (ok) {
      skip_blanks();
      if (p_ == end_) return {};
      what_ = "unexpected text after a value";
    }
    return {static_cast<size_t>(p_ - begin_), what_};
  }

 private:
  bool fail(const char* what) {
    what_ = what;
    return false;
  }
  void skip_blanks() {
    while (p_ < end_ && is_blank(*p_)) ++p_;
  }
  bool take(char c) {
    if (p_ == end_ || *p_ != c) return false;
    ++p_;
    return true;
  }

  // Checks a scalar, or the beginning of a group with its first value, if it has one.
  bool value() {
    for (;;) {
      skip_blanks();
      if (p_ == end_) return fail("a value is missing");
      const char c = *p_;
      if (c == '-' || is_digit(c)) return number();
      if (c == '"') return string();
      if (c != '[' && c != '{') return word();
      if (open_.size() == kMaxJsonDepth) return fail("nested too deeply");
      open_ += c == '[' ? ']' : '}';
      ++p_;
      skip_blanks();
      if (take(open_.back())) {
        open_.pop_back();
        return true;
      }
      if (c == '[') skip_plain_numbers();
      if (c == '{' && !key()) return false;
    }
  }

  // After a value in a group: checks the next one, or the end of the group.
  bool next_in_group() {
    skip_blanks();
    if (take(open_.back())) {
      open_.pop_back();
      return true;
    }
    if (!take(',')) return fail(open_.back() == ']' ? "expected \",\" or \"]\"" : "expected \",\" or \"}\"");
    if (open_.back() == '}') return key() && value();
    skip_plain_numbers();
    return value();
  }

  bool key() {
    skip_blanks();
    if (p_ == end_ || *p_ != '"') return fail("expected the name of a field");
    if (!string()) return false;
    skip_blanks();
    return take(':') || fail("expected \":\" after the name of a field");
  }

  bool word() {
    for (std::string_view known : {"true", "false", "null"})
      if (static_cast<size_t>(end_ - p_) >= known.size() && std::string_view(p_, known.size()) == known) {
        p_ += known.size();
        return true;
      }
    return fail("expected a value");
  }

  bool string() {
    for (++p_; p_ < end_; ++p_) {
      if (*p_ == '"') {
        ++p_;
        return true;
      }
      if (static_cast<unsigned char>(*p_) < 0x20) return fail("a control character in a string");
      if (*p_ != '\\') continue;
      if (++p_ == end_) break;
      if (*p_ != 'u') {
        if (std::string_view("\"\\/bfnrt").find(*p_) == std::string_view::npos)
          return fail("an unknown escape in a string");
        continue;
      }
      for (int i = 0; i < 4; ++i)
        if (++p_ == end_ || !is_hex(*p_)) return fail("expected four hexadecimal digits");
    }
    return fail("a string without a closing quote");
  }

  // Skips digits, eight at a time, since files are mostly numbers. Returns whether there was one.
  bool digits() {
    const char* first = p_;
    while (end_ - p_ >= 8) {
      uint64_t bytes;
      std::memcpy(&bytes, p_, 8);
      bytes ^= 0x3030303030303030;  // digits become 0 to 9; other bytes set their highest bit below
      const uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
      if (others != 0) {
        p_ += std::countr_zero(others) / 8;
        return p_ != first;
      }
      p_ += 8;
    }
    while (p_ < end_ && is_digit(*p_)) ++p_;
    return p_ != first;
  }

  // In a list, before a value: skips numbers without sign, exponent or blanks, each with the comma after it,
  // many at a time. Polygons consist of such numbers and make up most of a file. Anything else is left to
  // number().
  void skip_plain_numbers() {
#ifdef __AVX2__
    while (end_ - p_ >= 64 && is_digit(*p_)) {
      uint64_t digits = 0, points = 0, commas = 0, zeros = 0;  // a bit for each byte
      for (int half = 0; half < 2; ++half) {
        const __m256i text = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p_) + half);
        auto bits = [half](__m256i equal) {
          return static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(equal))) << (32 * half);
        };
        const __m256i value = _mm256_sub_epi8(text, _mm256_set1_epi8('0'));
        digits |= bits(_mm256_cmpeq_epi8(_mm256_min_epu8(value, _mm256_set1_epi8(9)), value));
        points |= bits(_mm256_cmpeq_epi8(text, _mm256_set1_epi8('.')));
        commas |= bits(_mm256_cmpeq_epi8(text, _mm256_set1_epi8(',')));
        zeros |= bits(_mm256_cmpeq_epi8(text, _mm256_set1_epi8('0')));
      }
      const uint64_t others = ~(digits | points | commas);
      const uint64_t ends = commas & ((others & -others) - 1);  // commas before the first other byte
      if (ends == 0) return;
      const int last = 63 - std::countl_zero(ends);
      const uint64_t seen = (uint64_t{2} << last) - 1;  // all bytes up to the last such comma
      digits &= seen, points &= seen, commas &= seen;
      const uint64_t firsts = commas << 1 | 1, after_points = points << 1;
      const bool plain =
          ((points | commas) & ~(digits << 1)) == 0 &&        // after a digit
          (points & ~(digits >> 1)) == 0 &&                   // before a digit
          ((firsts & seen) & ~digits) == 0 &&                 // commas too
          (firsts & zeros & digits & (digits >> 1)) == 0 &&   // no leading zeros
          ((digits + after_points) & ~digits & points) == 0;  // the carry meets no second point
      if (!plain) return;
      p_ += last + 1;
    }
#endif
  }
  bool number() {
    take('-');
    const char* whole = p_;
    if (!digits()) return fail("expected a digit");
    if (*whole == '0' && p_ - whole > 1) return fail("a number with leading zeros");
    if (take('.') && !digits()) return fail("expected a digit after the point");
    if (p_ < end_ && (*p_ == 'e' || *p_ == 'E')) {
      ++p_;
      if (!take('+')) take('-');
      if (!digits()) return fail("expected a digit in the exponent");
    }
    return true;
  }

  const char *begin_, *p_, *end_;
  std::string open_;  // closing brackets of the open groups
  const char* what_ = nullptr;
};

}  // namespace

JsonFault check_json(std::string_view text) { return Checker(text).run(); }

JsonFault fault_of_json(std::string_view text) {
  const JsonFault fault = check_json(text);
  const size_t end = fault.what != nullptr ? fault.at : text.size();
  for (size_t at = 0; at < end;) {
    const size_t length = utf8_length(text.substr(at));
    if (length == 0) return {at, "bytes that are not UTF-8"};
    at += length;
  }
  return fault;
}

}  // namespace saccade
