// Messages about images that cannot be read.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

namespace saccade {

// Counts them over the batches of a loader or of several processes.
class SkippedImages {
 public:
  // Returns the line for the user; "" for an image that was already reported.
  std::string line(const std::string& image) {
    if (!seen_.insert(image).second) return "";
    return fmt::format("skipped, {} so far: {}", seen_.size(), image);
  }

 private:
  std::set<std::string> seen_;
};

}  // namespace saccade
