// Reads a file of YOLO labels: one line for each object of an image.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/per_image.h"
#include "data/formats/yolo/yolo_names.h"

namespace saccade {

// Statistics of the lines with more numbers than a box, in one file or several.
struct LabelKinds {
  int64_t lines = 0, polygons = 0;
  size_t words = 0;     // of each polygon, while all have equally many
  bool is_even = true;  // whether they all do
  std::array<bool, 2> has_points{
      true, true};  // of 2 and of 3 numbers, all of them inside the box that the first numbers make

  void add(const LabelKinds& other);
  // Returns a message for the user; "" if there is nothing to report.
  std::string note() const;
};

struct YoloLabels {
  std::vector<ImageObject> objects;  // with a mask if the line has a polygon and masks are wanted
  LabelKinds kinds;
};

// Appends "path: line N: what" for each faulty line. Without a size there are no objects.
YoloLabels read_yolo_labels(const std::string& path, const YoloYaml& set, ImageSize size, bool masks,
                            std::vector<std::string>& problems);

}  // namespace saccade
