// How what cannot be blended is resized: masks, maps of classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace saccade {

// For every new pixel of a side the old one that it is made of: Pillow's NEAREST, to the pixel. The middles
// of new pixels add up as there, whose rounding decides where one is on a border.
inline std::vector<int64_t> nearest_pixels(int64_t before, int64_t after) {
  std::vector<int64_t> from;
  const double scale = static_cast<double>(before) / static_cast<double>(after);
  double middle = scale / 2;
  for (int64_t to = 0; to < after; ++to, middle += scale)
    from.push_back(std::min(static_cast<int64_t>(middle), before - 1));
  return from;
}

}  // namespace saccade
