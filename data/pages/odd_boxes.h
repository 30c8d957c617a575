// Finds boxes that are rarely intended.
#pragma once

#include <string>
#include <vector>

#include "data/pages/split.h"

namespace saccade {

struct OddBox {
  ImagePlace place;
  size_t annotation = 0;  // index in the list
  ptrdiff_t other = -1;   // likewise, the box that it nearly equals
  double measure = 0;     // how odd it is
  std::string what = {};  // in words: "2 x 3 pixels"
};
struct OddKind {
  std::string title, explanation;
  int64_t count = 0;
  std::vector<OddBox> shown;  // the oddest, at most kShownOddBoxes
};
inline constexpr size_t kShownOddBoxes = 8;

// Returns all kinds, including those without boxes. Crowds are left out.
std::vector<OddKind> find_odd_boxes(const std::vector<ReportedSplit>& splits);

}  // namespace saccade
