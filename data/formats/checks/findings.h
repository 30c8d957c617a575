// What a check of a data set found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

// Lines in groups: of thousands of equal ones a few are shown, and how many more there are.
class Findings {
 public:
  // Lines that differ in their place in a file, numbers and quoted names only are of one kind.
  void add(const std::string& line);
  void add(const std::string& kind, const std::string& line);
  int64_t count() const { return count_; }
  // By kind, in the order in which the kinds were met.
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
  Findings problems;                 // what is wrong
  std::vector<std::string> remarks;  // what is allowed but rarely meant, a line each
  std::vector<std::string> summary;  // what there is, a line each
  std::string units = {};  // in which other form than pixels [x, y, width, height] the boxes are; "": none
  std::vector<std::string> left_out = {};  // how what is left differs from it, a line each
};

}  // namespace saccade
