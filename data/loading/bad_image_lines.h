// Messages about images that cannot be read, or only with damage.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

namespace saccade {

// The beginning of Batch::bad_images' lines about images that were read although they are damaged.
inline constexpr std::string_view kDamagedImage = "warning: ";

// Counts those that were skipped, over the batches of a loader or of several processes.
class BadImageLines {
 public:
  // Returns the line for the user; "" for an image that was already reported.
  std::string line(const std::string& image) {
    if (!seen_.insert(image).second) return "";
    if (image.starts_with(kDamagedImage)) return image;
    return fmt::format("skipped, {} so far: {}", ++skipped_, image);
  }

 private:
  std::set<std::string> seen_;
  int64_t skipped_ = 0;
};

}  // namespace saccade
