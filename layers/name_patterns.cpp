#include "layers/name_patterns.h"

#include <re2/re2.h>

#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr size_t kMaxPatternLength = 4096;

std::shared_ptr<const re2::RE2> compile(const std::string& text, const std::string& where) {
  if (text.size() > kMaxPatternLength)
    fail_input("{}: a regular expression of {} characters, expected at most {}", where, text.size(),
               kMaxPatternLength);
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto regex = std::make_shared<re2::RE2>(text, options);
  if (!regex->ok())
    fail_input("{}: \"{}\" is not a regular expression: {}", where, shortened(text),
               shortened(regex->error()));
  return regex;
}

}  // namespace

NamePatterns::NamePatterns(const std::vector<std::string>& patterns, std::string where)
    : where_(std::move(where)) {
  for (const std::string& text : patterns) patterns_.push_back({text, compile(text, where_)});
}

int NamePatterns::match(const std::string& name) {
  int first = -1;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!re2::RE2::PartialMatch(name, *patterns_[i].regex)) continue;
    patterns_[i].used = true;
    if (first < 0) first = static_cast<int>(i);
  }
  return first;
}

int64_t NamePatterns::number(int pattern, const std::string& name) const {
  const Pattern& p = patterns_[static_cast<size_t>(pattern)];
  int64_t number = 0;
  if (p.regex->NumberOfCapturingGroups() < 1 || !re2::RE2::PartialMatch(name, *p.regex, &number))
    fail_input("{}: \"{}\" has no (...) group that captures the number of a layer in \"{}\"", where_,
               shortened(p.text), name);
  return number;
}

void NamePatterns::finish(const std::string& what) const {
  for (const Pattern& p : patterns_)
    if (!p.used) fail_input("{}: \"{}\" matches no {}", where_, shortened(p.text), what);
}

}  // namespace saccade
