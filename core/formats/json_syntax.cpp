#include "core/formats/json_syntax.h"

namespace saccade {
namespace {

class JsonSyntax {
 public:
  explicit JsonSyntax(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool value(int depth) {
    space();
    if (at_ == end_) return false;
    switch (*at_) {
      case '{':
        return list('}', depth, [this, depth] { return member(depth); });
      case '[':
        return list(']', depth, [this, depth] { return value(depth + 1); });
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }
  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  const char* at() const { return at_; }
  bool at_end() const { return at_ == end_; }

 private:
  template <class Item>
  bool list(char close, int depth, Item item) {
    constexpr int kDeepest = 1000;  // as simdjson
    if (depth > kDeepest) return false;
    ++at_;
    space();
    if (take(close)) return true;
    do {
      if (!item()) return false;
      space();
    } while (take(','));
    return take(close);
  }
  bool member(int depth) {
    space();
    if (at_ == end_ || *at_ != '"' || !string()) return false;
    space();
    return take(':') && value(depth + 1);
  }
  bool string() {
    for (++at_; at_ != end_ && *at_ != '"'; ++at_) {
      if (static_cast<unsigned char>(*at_) < 0x20) return false;
      if (*at_ == '\\' && !escape()) return false;
    }
    return take('"');
  }
  bool escape() {  // ends at its last character
    if (++at_ == end_) return false;
    if (*at_ != 'u') return std::string_view("\"\\/bfnrt").find(*at_) != std::string_view::npos;
    for (int i = 0; i < 4; ++i) {
      if (++at_ == end_) return false;
      const char c = *at_;
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return false;
    }
    return true;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }
  bool digits() {
    const char* begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != begin;
  }
  bool word(std::string_view expected) {
    for (char c : expected)
      if (!take(c)) return false;
    return true;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  const char *at_, *end_;
};

}  // namespace

const char* json_fault(std::string_view text) {
  JsonSyntax syntax(text);
  if (!syntax.value(0)) return syntax.at();
  syntax.space();
  return syntax.at_end() ? nullptr : syntax.at();
}

}  // namespace saccade
