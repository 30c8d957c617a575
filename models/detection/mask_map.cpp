#include "models/detection/mask_map.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace saccade {
namespace {

// For each original pixel of an axis the cell before it and how far it is on the way to the next.
struct Places {
  std::vector<int64_t> cells;
  std::vector<float> parts;

  // original pixels lie on the first `used` of the canvas's pixels, which the cells cover.
  Places(int64_t original, int64_t used, int64_t canvas, int64_t count) {
    const double scale = static_cast<double>(used) / static_cast<double>(original) *
                         static_cast<double>(count) / static_cast<double>(canvas);
    for (int64_t i = 0; i < original; ++i) {
      const double at =
          std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(count - 1));
      cells.push_back(std::min(static_cast<int64_t>(at), std::max<int64_t>(count - 2, 0)));
      parts.push_back(static_cast<float>(at - static_cast<double>(cells.back())));
    }
  }
};

}  // namespace

Mask mask_of_map(const float* logits, MapSize map, ImageSize canvas, const Target& image) {
  const ImageSize size{image.original_height, image.original_width};
  const Places rows(size.height, image.height, canvas.height, map.height),
      columns(size.width, image.width, canvas.width, map.width);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.height * size.width), 0);
  std::vector<float> row(static_cast<size_t>(map.width) + 1);
  const int64_t below = map.height > 1 ? map.width : 0;
  for (int64_t y = 0; y < size.height; ++y) {
    const float* top = logits + rows.cells[static_cast<size_t>(y)] * map.width;
    const float part = rows.parts[static_cast<size_t>(y)];
    for (int64_t x = 0; x < map.width; ++x)
      row[static_cast<size_t>(x)] = top[x] + part * (top[x + below] - top[x]);
    row.back() = row[row.size() - 2];
    if (*std::ranges::max_element(row) <= 0) continue;
    uint8_t* out = pixels.data() + y * size.width;
    for (size_t x = 0; x < columns.cells.size(); ++x) {
      const float* left = row.data() + columns.cells[x];
      out[x] = left[0] + columns.parts[x] * (left[1] - left[0]) > 0;
    }
  }
  return Mask::from_bitmap(size, pixels);
}

}  // namespace saccade
