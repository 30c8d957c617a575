// A file of YOLO labels: a line for each object of an image.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/types/segmentation.h"
#include "data/formats/yolo/yolo_names.h"

namespace saccade {

struct YoloBox {
  int64_t label = 0;
  std::array<double, 4> bbox{};                           // x, y, width, height in pixels
  std::shared_ptr<const Segmentation> segmentation = {};  // of a line with a polygon, where it is wanted
  int64_t line = 0;                                       // of the file
};

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
  std::vector<YoloBox> boxes;
  LabelKinds kinds;
};

// Appends "path: line N: what" for each line that is wrong. Without a size there are no boxes.
YoloLabels read_yolo_labels(const std::string& path, const YoloYaml& set, ImageSize size, bool masks,
                            std::vector<std::string>& problems);

}  // namespace saccade
