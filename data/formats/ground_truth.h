// Images, categories and the boxes of objects, whatever files they were read from. The terms and units are COCO's
// (https://cocodataset.org/#format-data).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/types/segmentation.h"

namespace saccade {

struct ImageInfo {
  int64_t id = 0;
  std::string file_name;
  int64_t width = 0, height = 0;  // pixels; 0: not known before the image is read
  std::string word = {};          // the id in the file, where that is no integer and `id` was made up
};

struct Annotation {
  int64_t id = 0, image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels
  double area = 0;  // pixels of the object; width * height of the box where nothing else is known
  bool iscrowd = false;
  std::shared_ptr<const Segmentation> segmentation = {};  // null: none, or not asked for
};

struct Category {
  int64_t id = 0;
  std::string name;
};

struct GroundTruth {
  std::vector<ImageInfo> images;
  std::vector<Annotation> annotations;
  std::vector<Category> categories;
  std::vector<std::string> notes =
      {};  // what whoever read it has made of it, a line each, without the file's name
  std::vector<std::string> links = {};  // in the folder of images, that were followed when it was listed
  bool names_all_images = false;  // the reader has listed the folder of images, and told what it left out
  int64_t faulty_masks =
      0;  // annotations that have no segmentation because theirs has a fault, which was reported
  bool is_annotated = true;  // false: the file has no list of annotations (DataPaths::may_lack_annotations)
};

// Takes one problem (a line without the file's name); may throw.
using ProblemReport = std::function<void(const std::string& problem)>;

// Reports ids that are used twice, annotations that name an unknown image or category, and boxes whose far corner or area is too
// large for a number.
void check_ids(const GroundTruth& truth, const ProblemReport& report);

// A list that names fewer of the known categories, and no others, is of these categories: takes them and returns true. What it calls
// otherwise stays, a conflict that is told by who compares the two.
bool take_known_categories(GroundTruth& truth, const std::vector<Category>& known);

}  // namespace saccade
