// The pixels of an object as files say them: polygons, or runs (https://cocodataset.org/#format-data).
#pragma once

#include <vector>

#include "core/tensor/error.h"
#include "core/types/mask.h"

namespace saccade {

struct Segmentation {
  std::vector<std::vector<double>> polygons;  // x, y, x, y, ... in pixels; the object is all of them
  Mask runs;                                  // where there are no polygons

  // For an image of this size. Throws InputError for runs of another one, and as Mask::from_polygons does.
  Mask mask(ImageSize size) const {
    if (!polygons.empty()) return Mask::from_polygons(size, polygons);
    check(size);
    return runs;
  }
  // Throws what mask() would throw.
  void check(ImageSize size) const {
    if (!polygons.empty()) return Mask::check_polygons(polygons);
    if (runs.size() != size)
      fail_input("mask: it is {} x {}, but its image is {} x {}", runs.size().width, runs.size().height,
                 size.width, size.height);
  }
};

}  // namespace saccade
