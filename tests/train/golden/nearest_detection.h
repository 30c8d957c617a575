// Compares the detections of two programs.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "data/evaluation/detections.h"

namespace saccade {

// The largest difference of the four numbers.
inline double box_difference(const Detection& a, const Detection& b) {
  double worst = 0;
  for (size_t i = 0; i < 4; ++i) worst = std::max(worst, std::abs(a.bbox[i] - b.bbox[i]));
  return worst;
}

// Takes the matching detection out of `ours`, since nearly equal scores may come in another order: of the
// same image and category, with the nearest box among those whose score differs by less than 1e-3.
inline std::optional<Detection> take_nearest(std::vector<Detection>& ours, const Detection& expected) {
  auto nearest = ours.end();
  for (auto it = ours.begin(); it != ours.end(); ++it)
    if (it->image_id == expected.image_id && it->category_id == expected.category_id &&
        std::abs(it->score - expected.score) < 1e-3 &&
        (nearest == ours.end() || box_difference(*it, expected) < box_difference(*nearest, expected)))
      nearest = it;
  if (nearest == ours.end()) return std::nullopt;
  const Detection found = *nearest;
  ours.erase(nearest);
  return found;
}

}  // namespace saccade
