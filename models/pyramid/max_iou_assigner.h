// Which object a candidate box (an anchor, a proposal) stands for: by how much they overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saccade {

struct MaxIouOptions {
  double positive = 0.5;     // stands for the object that it overlaps most, from this IoU on
  double negative = 0.4;     // stands for the background below this one; in between it is ignored
  bool low_quality = true;   // an object also has all the candidates that overlap it best of all,
  double least_quality = 0;  // where they do at least so much; they must overlap at all
};

// What else a candidate may stand for.
inline constexpr int32_t kBackground = -1, kIgnored = -2;

// [candidates], the object of each, kBackground or kIgnored. Boxes are corners, four numbers each. Of equal
// objects the first counts, of objects that claim one candidate as their best the last one.
std::vector<int32_t> assign_max_iou(std::span<const float> candidates, std::span<const float> objects,
                                    const MaxIouOptions& options);

}  // namespace saccade
