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
#include <unordered_set>
#include <vector>

#include "core/types/segmentation.h"

namespace saccade {

struct LabelValues;  // data/formats/label_maps/label_values.h

// The place of a record in the files that were read. If these number their records, as COCO's do, the id
// identifies the record and there is no place.
struct Place {
  uint32_t file = 0;   // index in GroundTruth::files, from 1; 0 if there is no place
  int64_t number = 0;  // the line, or another unit of the file; 0 for the whole file
};

struct ImageInfo {
  int64_t id = 0;
  std::string file_name;
  int64_t width = 0, height = 0;  // pixels; 0 if unknown before the image is read
  std::string word = {};          // the id in the file if it is no integer and `id` was made up
  Place place = {};
  std::optional<int64_t> category_id = {};  // of the image as a whole, if it has a class
  // The file with the classes of its pixels and the meaning of its values; "" if there is none.
  std::string label_file = {};
  std::shared_ptr<const LabelValues> label_values = {};
};

struct Annotation {
  int64_t id = 0, image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels: the file's numbers, not rounded again
  double area = 0;               // pixels of the object; width * height of the box if nothing else is known
  bool iscrowd = false;
  std::shared_ptr<const Segmentation> segmentation = {};  // null if there is none or it was not requested
  Place place = {};
  std::optional<double> score = {};  // of a model's detection
};

struct Category {
  int64_t id = 0;
  std::string name;
};

// How files give boxes, for messages.
enum class BoxForm { kCornerAndSize, kCorners, kOther };

struct GroundTruth {
  std::vector<ImageInfo> images;
  std::vector<Annotation> annotations;
  std::vector<Category> categories;
  std::vector<std::string> notes = {};  // remarks of the reader, one line each, without the file's name
  std::vector<std::string> told = {};   // before the notes, whole lines: "DIR: 80 images of 10 classes"
  std::vector<std::string> links = {};  // links in the folder of images that were followed when listing it
  bool names_all_images = false;  // the reader has listed the folder of images and reported what it left out
  // The ids of images and categories that were left out because of a fault in their records, which was
  // reported, and the names of such images; as far as they are known.
  std::unordered_set<int64_t> faulty_images = {}, faulty_categories = {};
  std::vector<std::string> faulty_image_names = {};
  // What the reader left out besides single objects, after a problem for each was reported.
  struct LeftOut {
    int64_t images = 0, categories = 0;
    int64_t boxes_of_images = 0, boxes_of_unknown = 0;  // of images that were left out, or are unknown
    int64_t count() const { return images + categories + boxes_of_images + boxes_of_unknown; }
  };
  LeftOut left_out = {};
  int64_t faulty_masks = 0;  // annotations whose faulty segmentation was reported and left out
  // Maps ids of categories in the reader's file that were replaced by others to the ids of these.
  std::unordered_map<int64_t, int64_t> mapped_ids = {};
  bool ids_are_places = false;  // the format does not number images: ids are their places in the list
  bool is_annotated = true;  // false if the file has no list of annotations (DataPaths::may_lack_annotations)
  // The files that places refer to, and the unit of the places' numbers.
  struct SourceFile {
    std::string path;
    const char* unit = "line";
  };
  std::vector<SourceFile> files = {};
  BoxForm box_form = BoxForm::kCornerAndSize;
  // Label maps are drawn from the masks, large objects first; pixels without an object have this category,
  // or none.
  struct DrawnLabels {
    std::optional<int64_t> background;
  };
  std::optional<DrawnLabels> drawn_labels = {};

  // Appends the file and returns the place of the whole file.
  Place add_file(std::string path, const char* unit = "line");
  // Returns "labels/a.txt: line 3"; "" if there is no place.
  std::string text_of(const Place& place) const;
  // The name of a record for messages: its place, else "image 3" and "annotation 7".
  std::string name_of(const ImageInfo& image) const;
  std::string name_of(const Annotation& annotation) const;
  // The same with the list's name before it if it has no place: "list.json: annotation 7",
  // with its image " (image 3)" at the end.
  std::string where(const ImageInfo& image, const std::string& list) const;
  std::string where(const Annotation& annotation, const std::string& list, bool with_image = false) const;
  // If several images have an id, the first counts.
  std::unordered_map<int64_t, const ImageInfo*> images_by_id() const;
};

// Receives one problem, a line that names the file and the place in it; may throw.
using ProblemReport = std::function<void(const std::string& problem)>;

bool is_faulty_image(const GroundTruth& truth, int64_t id);
bool is_faulty_category(const GroundTruth& truth, int64_t id);
// Say why an annotation's image or category is unknown; name: its id as the file has it.
std::string unknown_image(const GroundTruth& truth, int64_t id, const std::string& name);
std::string unknown_category(const GroundTruth& truth, int64_t id, const std::string& name);

// Reports ids that are used twice, annotations that refer to an unknown image or category, and boxes whose
// far corner or area is too large for a 64-bit float. name: the file, for records without a place.
void check_ids(const GroundTruth& truth, const std::string& name, const ProblemReport& report);

// If a list has only some of the known categories and no others, adopts all of these and returns true. If a
// name differs, or a category was left out because of a fault, the list stays unchanged; the code that
// compares the two reports this conflict.
bool take_known_categories(GroundTruth& truth, const std::vector<Category>& known);

}  // namespace saccade
