// Helpers with which tests of models define objects.
#pragma once

#include <array>
#include <vector>

#include "core/types/target.h"

namespace saccade::test {

// b: (cx, cy, w, h), relative to the image.
inline void add_object(Target& target, int64_t label, const std::array<float, 4>& b) {
  target.frame = {1, 1};
  target.instances.push_back({.label = label, .box = box_of_centre(b[0], b[1], b[2], b[3])});
}

// boxes: four numbers for each object.
inline void set_objects(Target& target, const std::vector<int64_t>& labels, const std::vector<float>& boxes) {
  target.instances.clear();
  for (size_t i = 0; i < labels.size(); ++i)
    add_object(target, labels[i],
               {boxes.at(4 * i), boxes.at(4 * i + 1), boxes.at(4 * i + 2), boxes.at(4 * i + 3)});
}

}  // namespace saccade::test
