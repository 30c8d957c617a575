// A file of YOLO labels: a line for each object of an image.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/per_image.h"
#include "data/formats/yolo/yolo_names.h"

namespace saccade {

// What the lines of more numbers than a box has look like, of one file or of many.
struct LabelKinds {
  int64_t lines = 0, polygons = 0;
  size_t words = 0;     // of each polygon, while they are as many
  bool is_even = true;  // they are
  std::array<bool, 2> has_points{
      true, true};  // of 2 and of 3 numbers, all of them in the box that the first numbers make

  void add(const LabelKinds& other);
  // What the user should know of it; "": nothing.
  std::string note() const;
};

struct YoloLabels {
  std::vector<ImageObject> objects;  // with a mask where the line has a polygon and masks are wanted
  LabelKinds kinds;
};

// Appends "path: line N: what" for each line that is wrong. Without a size there are no objects.
YoloLabels read_yolo_labels(const std::string& path, const YoloYaml& set, ImageSize size, bool masks,
                            std::vector<std::string>& problems);

}  // namespace saccade
