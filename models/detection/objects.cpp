#include "models/detection/objects.h"

#include <cmath>

#include "core/tensor/error.h"

namespace saccade {

Objects::Objects(const std::vector<Target>& targets) {
  for (const Target& t : targets) {
    const auto w = static_cast<double>(t.frame.width), h = static_cast<double>(t.frame.height);
    for (const Instance& i : t.instances) {
      const auto& [x1, y1, x2, y2] = i.box;
      for (double part : {(x1 + x2) / 2 / w, (y1 + y2) / 2 / h, (x2 - x1) / w, (y2 - y1) / h})
        boxes.push_back(static_cast<float>(part));
      images.push_back(std::ssize(first) - 1);
      labels.push_back(i.label);
    }
    first.push_back(std::ssize(labels));
  }
}

std::string name_of_image(const Target& t) {
  return t.file_name.empty() ? fmt::format("image {}", t.image_id)
                             : fmt::format("image {} ({})", t.image_id, t.file_name);
}

void check_objects(const Objects& objects, const std::vector<Target>& targets, int64_t classes) {
  for (int64_t n = 0; n < std::ssize(targets); ++n)
    for (int64_t i = 0; i < objects.count(n); ++i) {
      const Target& t = targets[static_cast<size_t>(n)];
      const int64_t label = objects.label(n, i);
      SACCADE_CHECK(label >= 0 && label < classes, "[matcher] {}: object {} has class {}, expected 0 to {}",
                    name_of_image(t), i, label, classes - 1);
      const float* b = objects.box(n, i);
      SACCADE_CHECK(
          std::isfinite(b[0] + b[1] + b[2] + b[3]) && b[2] >= 0 && b[3] >= 0,
          "[matcher] {}: object {} has box ({}, {}, {}, {}), expected finite (cx, cy, w, h) with w and "
          "h not negative",
          name_of_image(t), i, b[0], b[1], b[2], b[3]);
    }
}

}  // namespace saccade
