// The pixels of an object as files store them: polygons, or runs (https://cocodataset.org/#format-data).
#pragma once

#include <vector>

#include "core/tensor/error.h"
#include "core/types/mask.h"

namespace saccade {

struct Segmentation {
  std::vector<std::vector<double>> polygons;  // x, y, x, y, ... in pixels; the object is their union
  Mask runs;                                  // used if there are no polygons

  // The mask for an image of this size. Throws InputError like from_polygons(), and for runs of another size.
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
