// Writes images and boxes as the label files of other programs.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/formats/ground_truth.h"

namespace saccade {

// One list. Those of one data set have the same categories.
struct LabelList {
  const GroundTruth& truth;   // every image has a size
  std::string split = {};     // "train"; "" if it is the only one, without the pictures next to it
  std::string images = {};    // the folder of its pictures as it was given
  std::string description{};  // its origin
};

// The files to write below a folder, with '/' in their names.
struct LabelFiles {
  struct File {
    std::string name, text;
  };
  // The pictures of one of the lists, below the folder `name`.
  struct Pictures {
    std::string name;
    size_t list;
  };
  std::vector<File> files = {};
  std::vector<Pictures> pictures = {};
  std::vector<std::string> notes = {};  // what the form cannot express and therefore lacks, one line each
};

struct LabelForm {
  std::string name, summary;
  bool has_scores = false,
       is_read = false;        // writes models' scores; is also a data format with the same name
  bool of_each_image = false;  // each image has its own file
  bool has_crowds = true;      // otherwise crowds are left out
  // Throws InputError for names of images that would share a file of labels.
  LabelFiles (*write)(std::span<const LabelList> lists) = nullptr;
  std::string file = {};  // where it is registered
};

inline Registry<LabelForm>& label_forms() { return registry_of<LabelForm>("form of labels"); }
// The names of the forms that are also read.
std::vector<std::string> readable_forms();

// Returns the annotations of each image, in their order.
std::vector<std::vector<const Annotation*>> annotations_by_image(const GroundTruth& truth);
// Returns the name of an image's own label file below a folder: "a/b.xml" for "a/b.jpg".
std::string label_name(const ImageInfo& image, const std::string& ending);
// Throws InputError if two images share one.
void check_label_names(const GroundTruth& truth, const std::string& ending, const std::string& form);
// Returns the name of a category by its id.
const std::string& category_name(const GroundTruth& truth, int64_t id);
int64_t crowds_of(const LabelList& list);
// Counts objects other than crowds whose area is known and differs from that of their box; of_masks: also
// those with a mask, which may tell the area.
int64_t own_areas(const LabelList& list, bool of_masks = true);
// Adds notes like "3 crowds are left out: YOLO has none" for counts above 0.
struct LeftOut {
  int64_t count;
  const char *one, *many, *what;  // "crowd is", "crowds are", "left out: YOLO has none"
};
void note_left_out(LabelFiles& files, const LabelList& list, std::initializer_list<LeftOut> counts);

}  // namespace saccade
