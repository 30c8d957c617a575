// The raw content of a COCO instances file (https://cocodataset.org/#format-data), before any judgement.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace saccade {

struct CocoImage {
  int64_t id = 0;
  std::string file_name;
  int64_t width = 0, height = 0;  // pixels
};

struct CocoAnnotation {
  int64_t id = 0, image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels
  double area = 0;               // pixels; width * height of the box where the file has none
  bool iscrowd = false;
};

struct CocoCategory {
  int64_t id = 0;
  std::string name;
};

struct CocoFile {
  std::vector<CocoImage> images;  // in file order, as are the others
  std::vector<CocoAnnotation> annotations;
  std::vector<CocoCategory> categories;
};

// Takes one problem (a line without the file's name); may throw.
using CocoReport = std::function<void(const std::string& problem)>;

// Reads the file. A record with a missing or mistyped field is reported and left out, all others are kept.
// Throws InputError when the file cannot be read, is not JSON, or lacks one of the three lists.
CocoFile read_coco(const std::string& path, const CocoReport& report);
// Reports duplicate ids and annotations that name an unknown image or category.
void check_coco_ids(const CocoFile& file, const CocoReport& report);

}  // namespace saccade
