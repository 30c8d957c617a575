// Assigns objects to candidate boxes (anchors, proposals) by their overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saccade {

struct MaxIouOptions {
  double positive = 0.5;     // from this IoU on, a candidate gets the object that it overlaps most
  double negative = 0.4;     // below this IoU it is background; in between it is ignored
  bool low_quality = true;   // an object also gets all the candidates that overlap it best,
  double least_quality = 0;  // if their IoU is at least this; they must overlap at all
};

// The other values that a candidate may get.
inline constexpr int32_t kBackground = -1, kIgnored = -2;

// Returns [candidates], the object of each, kBackground or kIgnored. Boxes are four corner coordinates. Of
// objects that overlap a candidate equally, the first wins; of those that claim it as their best, the last.
std::vector<int32_t> assign_max_iou(std::span<const float> candidates, std::span<const float> objects,
                                    const MaxIouOptions& options);

}  // namespace saccade
