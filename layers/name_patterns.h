// Regular expressions (RE2) that select parameters or modules by their full names: found anywhere in a name.
// Matching takes time in proportion to the name, whatever the expression.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace saccade {

class NamePatterns {
 public:
  // where: the field or option that the patterns come from, which messages begin with. Throws InputError for
  // a text that is no regular expression, or a large one.
  NamePatterns(const std::vector<std::string>& patterns, std::string where);

  // The index of the first pattern that is found in the name, or -1.
  int match(const std::string& name);
  // The number that the first parentheses of a pattern find in the name.
  // Throws InputError where they find none.
  int64_t number(int pattern, const std::string& name) const;
  // Throws InputError for a pattern that no name matched. what: "parameter of the model", say.
  void finish(const std::string& what) const;

 private:
  struct Pattern {
    std::string text;
    std::shared_ptr<const re2::RE2> regex;
    bool used = false;
  };
  std::string where_;
  std::vector<Pattern> patterns_;
};

}  // namespace saccade
