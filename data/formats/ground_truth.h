// Images, categories and the boxes of objects, whatever files they were read from. The terms and units are
// COCO's
// (https://cocodataset.org/#format-data).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/types/segmentation.h"

namespace saccade {

struct LabelValues;  // data/formats/label_maps/label_values.h

// Where a record stands in the files that were read. Where these number their records, as COCO's do, the id
// says it and there is none.
struct Place {
  uint32_t file = 0;   // of GroundTruth::files, from 1; 0: there is no place
  int64_t number = 0;  // of the line, or what else the file counts; 0: the file as a whole
};

struct ImageInfo {
  int64_t id = 0;
  std::string file_name;
  int64_t width = 0, height = 0;  // pixels; 0: not known before the image is read
  std::string word = {};          // the id in the file, where that is no integer and `id` was made up
  Place place = {};
  std::optional<int64_t> category_id = {};  // of the image as a whole, where it has a class
  // The file of the classes of its pixels and what the values in it mean; "": there is none.
  std::string label_file = {};
  std::shared_ptr<const LabelValues> label_values = {};
};

struct Annotation {
  int64_t id = 0, image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels: the file's numbers, not rounded again
  double area = 0;  // pixels of the object; width * height of the box where nothing else is known
  bool iscrowd = false;
  std::shared_ptr<const Segmentation> segmentation = {};  // null: none, or not asked for
  Place place = {};
  std::optional<double> score = {};  // of what a model has found
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
  std::vector<std::string> told = {};   // before the notes, whole lines: "DIR: 80 images of 10 classes"
  std::vector<std::string> links = {};  // in the folder of images, that were followed when it was listed
  bool names_all_images = false;  // the reader has listed the folder of images, and told what it left out
  int64_t faulty_masks =
      0;  // annotations that have no segmentation because theirs has a fault, which was reported
  // Of categories that the reader's file has and that are taken for others: their ids, and those of these.
  std::unordered_map<int64_t, int64_t> mapped_ids = {};
  bool ids_are_places = false;  // the format numbers no images: their ids count them in the order of the list
  bool is_annotated = true;  // false: the file has no list of annotations (DataPaths::may_lack_annotations)
  // That records have places in, and what the numbers of these count.
  struct SourceFile {
    std::string path;
    const char* unit = "line";
  };
  std::vector<SourceFile> files = {};
  // Label maps are drawn of the masks, large objects first; pixels without an object are of this category,
  // or of none.
  struct DrawnLabels {
    std::optional<int64_t> background;
  };
  std::optional<DrawnLabels> drawn_labels = {};

  // Appends the file; the place that is all of it.
  Place add_file(std::string path, const char* unit = "line");
  // "labels/a.txt: line 3"; "" where there is no place.
  std::string text_of(const Place& place) const;
  // Of a record, for messages: its place, else "image 3" and "annotation 7".
  std::string name_of(const ImageInfo& image) const;
  std::string name_of(const Annotation& annotation) const;
  // The same with the list's name before what is no place: "list.json: annotation 7",
  // with its image " (image 3)" behind.
  std::string where(const ImageInfo& image, const std::string& list) const;
  std::string where(const Annotation& annotation, const std::string& list, bool with_image = false) const;
  // Of an id that several have, the first.
  std::unordered_map<int64_t, const ImageInfo*> images_by_id() const;
};

// Takes one problem, a line that names the file and the place in it; may throw.
using ProblemReport = std::function<void(const std::string& problem)>;

// Reports ids that are used twice, annotations that name an unknown image or category, and boxes whose far
// corner or area is too large for a number. name: the file, for records without a place.
void check_ids(const GroundTruth& truth, const std::string& name, const ProblemReport& report);

// A list that names fewer of the known categories, and no others, is of these categories: takes them and
// returns true. What it calls otherwise stays, a conflict that is told by who compares the two.
bool take_known_categories(GroundTruth& truth, const std::vector<Category>& known);

}  // namespace saccade
