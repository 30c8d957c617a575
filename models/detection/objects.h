// The objects of a batch in the form that the matcher, losses and denoising use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types/target.h"

namespace saccade {

// R objects, image by image.
struct Objects {
  std::vector<int64_t> first{0};  // objects of image n are [first[n], first[n + 1])
  std::vector<int64_t> images, labels;
  std::vector<float> boxes;  // [R, 4] as (cx, cy, w, h), relative to the image

  explicit Objects(const std::vector<Target>& targets);
  int64_t count() const { return first.back(); }
  int64_t count(int64_t image) const { return first[static_cast<size_t>(image) + 1] - begin(image); }
  int64_t begin(int64_t image) const { return first[static_cast<size_t>(image)]; }
  int64_t label(int64_t image, int64_t object) const {
    return labels[static_cast<size_t>(begin(image) + object)];
  }
  const float* box(int64_t image, int64_t object) const { return boxes.data() + 4 * (begin(image) + object); }
};

// "image 12 (a.jpg)", for messages.
std::string name_of_image(const Target& target);

// Throws Error for an object that no prediction with this many classes could match: "image 12 (a.jpg): object
// 3 has class 9, expected 0 to 4", or a box that is not finite or is inverted.
void check_objects(const Objects& objects, const std::vector<Target>& targets, int64_t classes);

}  // namespace saccade
