// Names the images of a set.
#pragma once

#include <string>

#include "core/files/checksum.h"
#include "data/formats/dataset.h"

namespace saccade {

// Returns "400 images 1a2b3c4d", made of their ids and names, not their folder; differs for other images.
inline std::string name_of_images(const Dataset& set) {
  Checksum sum;
  for (int64_t i = 0; i < set.num_images(); ++i) {
    const std::string line = std::to_string(set.image_id(i)) + " " + set.file_name(i) + "\n";
    sum.add(line.data(), line.size());
  }
  return std::to_string(set.num_images()) + " images " + checksum_text(sum.value());
}

}  // namespace saccade
