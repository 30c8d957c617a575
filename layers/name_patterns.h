// Regular expressions (RE2) that select parameters or modules by their full names; a match anywhere in a name
// counts. Matching takes time proportional to the name's length, whatever the expression.
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
  // where: the field or option from which the patterns come; it begins the messages. Throws InputError for
  // text that is not a regular expression, or for too large a one.
  NamePatterns(const std::vector<std::string>& patterns, std::string where);

  // Returns the index of the first pattern that is found in the name, or -1.
  int match(const std::string& name);
  // Returns the number that the first parentheses of a pattern match in the name. Throws InputError if they
  // match none.
  int64_t number(int pattern, const std::string& name) const;
  // Throws InputError for a pattern that matched no name. what: for example "parameter of the model".
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
