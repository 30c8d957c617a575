#include "layers/name_patterns.h"

#include "core/tensor/error.h"

namespace saccade {

NamePatterns::NamePatterns(const std::vector<std::string>& patterns, std::string where)
    : where_(std::move(where)) {
  for (const std::string& text : patterns) {
    try {
      patterns_.push_back({text, std::regex(text)});
    } catch (const std::regex_error& e) {
      fail_input("{}: \"{}\" is not a regular expression: {}", where_, text, e.what());
    }
  }
}

int NamePatterns::match(const std::string& name) {
  int first = -1;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!std::regex_search(name, patterns_[i].regex)) continue;
    patterns_[i].used = true;
    if (first < 0) first = static_cast<int>(i);
  }
  return first;
}

void NamePatterns::finish(const std::string& what) const {
  for (const Pattern& p : patterns_)
    if (!p.used) fail_input("{}: \"{}\" matches no {}", where_, p.text, what);
}

}  // namespace saccade
