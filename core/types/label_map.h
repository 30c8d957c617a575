// The class of every pixel of an image.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types/image_size.h"
#include "core/types/nearest.h"

namespace saccade {

struct LabelMap {
  static constexpr uint16_t kIgnored = 65535;  // pixels without a class or outside the image

  ImageSize size;
  std::vector<uint16_t> values;  // [height, width], row by row; empty if there is no map

  LabelMap() = default;
  // A map of ignored pixels.
  explicit LabelMap(ImageSize s) : size(s), values(static_cast<size_t>(s.height * s.width), kIgnored) {}
  bool operator==(const LabelMap&) const = default;

  // Resizes as Mask::resize does.
  LabelMap resize(ImageSize to) const {
    LabelMap out(to);
    const std::vector<int64_t> columns = nearest_pixels(size.width, to.width);
    auto at = out.values.begin();
    for (int64_t row : nearest_pixels(size.height, to.height))
      for (int64_t column : columns) *at++ = values[static_cast<size_t>(row * size.width + column)];
    return out;
  }
};

}  // namespace saccade
