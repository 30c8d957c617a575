#include "core/formats/json_syntax.h"

namespace saccade {
namespace {

// Each reads one thing and returns the place after it, or keeps where it stopped. Places are passed by value: the files are large.
class JsonSyntax {
 public:
  explicit JsonSyntax(std::string_view text) : end_(text.data() + text.size()) {}

  const char* value(const char* p, int depth) {
    p = space(p);
    if (p == end_) return stop(p);
    switch (*p) {
      case '{':
        return list(p, '}', depth, [this](const char* item, int inside) { return member(item, inside); });
      case '[':
        return list(p, ']', depth, [this](const char* item, int inside) { return value(item, inside); });
      case '"':
        return string(p);
      case 't':
        return word(p, "true");
      case 'f':
        return word(p, "false");
      case 'n':
        return word(p, "null");
      default:
        return number(p);
    }
  }
  const char* space(const char* p) const {
    while (p != end_ && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
    return p;
  }
  const char* stopped() const { return stopped_; }

 private:
  const char* stop(const char* p) {
    stopped_ = p;
    return nullptr;
  }
  bool is(const char* p, char c) const { return p != end_ && *p == c; }
  bool is_digit(const char* p) const { return p != end_ && static_cast<unsigned char>(*p - '0') < 10; }

  template <class Item>
  const char* list(const char* p, char close, int depth, Item item) {
    constexpr int kDeepest = 1000;  // as simdjson
    if (depth > kDeepest) return stop(p);
    p = space(p + 1);
    if (is(p, close)) return p + 1;
    for (;; ++p) {
      p = item(p, depth + 1);
      if (p == nullptr) return nullptr;
      p = space(p);
      if (!is(p, ',')) return is(p, close) ? p + 1 : stop(p);
    }
  }
  const char* member(const char* p, int depth) {
    p = space(p);
    if (!is(p, '"')) return stop(p);
    p = string(p);
    if (p == nullptr) return nullptr;
    p = space(p);
    return is(p, ':') ? value(p + 1, depth) : stop(p);
  }
  const char* string(const char* p) {
    for (++p; p != end_ && *p != '"'; ++p) {
      if (static_cast<unsigned char>(*p) < 0x20) return stop(p);
      if (*p != '\\') continue;
      p = escape(p + 1);
      if (p == nullptr) return nullptr;
    }
    return p != end_ ? p + 1 : stop(p);
  }
  const char* escape(const char* p) {  // to its last character
    if (p == end_) return stop(p);
    if (*p != 'u') return std::string_view("\"\\/bfnrt").find(*p) != std::string_view::npos ? p : stop(p);
    for (int i = 0; i < 4; ++i) {
      ++p;
      const bool is_hex = p != end_ && (is_digit(p) || (*p >= 'a' && *p <= 'f') || (*p >= 'A' && *p <= 'F'));
      if (!is_hex) return stop(p);
    }
    return p;
  }
  const char* number(const char* p) {
    if (is(p, '-')) ++p;
    p = is(p, '0') ? p + 1 : digits(p);
    if (p != nullptr && is(p, '.')) p = digits(p + 1);
    if (p == nullptr || (!is(p, 'e') && !is(p, 'E'))) return p;
    ++p;
    return digits(is(p, '+') || is(p, '-') ? p + 1 : p);
  }
  const char* digits(const char* p) {
    if (!is_digit(p)) return stop(p);
    while (is_digit(p)) ++p;
    return p;
  }
  const char* word(const char* p, std::string_view expected) {
    for (char c : expected)
      if (!is(p, c))
        return stop(p);
      else
        ++p;
    return p;
  }

  const char *end_, *stopped_ = nullptr;
};

}  // namespace

const char* json_fault(std::string_view text) {
  JsonSyntax syntax(text);
  const char* end = syntax.value(text.data(), 0);
  if (end == nullptr) return syntax.stopped();
  end = syntax.space(end);
  return end == text.data() + text.size() ? nullptr : end;
}

}  // namespace saccade
