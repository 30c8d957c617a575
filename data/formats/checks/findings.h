// The results of a check of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

// Lines in groups: of many similar lines it shows a few and the number of the others.
class Findings {
 public:
  // Lines that differ only in their place in a file, in numbers and in quoted names are of one kind.
  void add(const std::string& line);
  void add(const std::string& kind, const std::string& line);
  int64_t count() const { return count_; }
  // Returns the lines by kind, in the order in which the kinds first appeared.
  std::vector<std::string> lines() const;

 private:
  struct Group {
    std::string kind;
    std::vector<std::string> shown;
    int64_t count = 0;
  };
  std::vector<Group> groups_;
  int64_t count_ = 0;
};

struct DatasetReport {
  Findings problems;                 // errors
  std::vector<std::string> remarks;  // things that are allowed but rarely intended, one line each
  std::vector<std::string> summary;  // the contents, one line each
  std::string units = {};            // the form of the boxes if not pixels [x, y, width, height], else ""
  std::vector<std::string> left_out = {};  // how the kept part differs from the set, one line each
};

}  // namespace saccade
