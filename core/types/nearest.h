// Nearest-neighbour resizing, for what cannot be blended: masks and maps of classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace saccade {

// Returns for every new pixel of a side the old pixel that it copies, exactly as Pillow's NEAREST. The
// centres of new pixels are accumulated as in Pillow, since their rounding decides at borders between pixels.
inline std::vector<int64_t> nearest_pixels(int64_t before, int64_t after) {
  std::vector<int64_t> from;
  const double scale = static_cast<double>(before) / static_cast<double>(after);
  double middle = scale / 2;
  for (int64_t to = 0; to < after; ++to, middle += scale)
    from.push_back(std::min(static_cast<int64_t>(middle), before - 1));
  return from;
}

}  // namespace saccade
