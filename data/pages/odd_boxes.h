// Boxes that are rarely meant.
#pragma once

#include <string>
#include <vector>

#include "data/pages/split.h"

namespace saccade {

struct OddBox {
  ImagePlace place;
  size_t annotation = 0;  // a place in the list
  ptrdiff_t other = -1;   // likewise, the box that it is nearly the same as
  double measure = 0;     // how odd
  std::string what = {};  // in words: "2 x 3 pixels"
};
struct OddKind {
  std::string title, explanation;
  int64_t count = 0;
  std::vector<OddBox> shown;  // the oddest, at most kShownOddBoxes
};
inline constexpr size_t kShownOddBoxes = 8;

// All kinds, also those of which there is none. Crowds are left out.
std::vector<OddKind> find_odd_boxes(const std::vector<ReportedSplit>& splits);

}  // namespace saccade
