// Images and boxes as the label files of other programs.
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
  std::string split = {};     // "train"; "": it is the only one, without the pictures next to it
  std::string images = {};    // the folder of its pictures, as it is
  std::string description{};  // what it was made from
};

// What is written below a folder: the names have '/'.
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
  std::vector<std::string> notes = {};  // what the form cannot say and so lacks, a line each
};

struct LabelForm {
  std::string name, summary;
  bool has_scores = false,
       is_read = false;  // what models are sure of is written; it is a data format of the same name, too
  bool of_each_image = false;  // has a file of its own
  bool has_crowds = true;      // else they are left out
  // Throws InputError for names of images that would share a file of labels.
  LabelFiles (*write)(std::span<const LabelList> lists) = nullptr;
  std::string file = {};  // where it is registered
};

inline Registry<LabelForm>& label_forms() { return registry_of<LabelForm>("form of labels"); }
// Of those that are read.
std::vector<std::string> readable_forms();

// The annotations of each image, in their order.
std::vector<std::vector<const Annotation*>> annotations_by_image(const GroundTruth& truth);
// The name of an image's own file of labels below a folder: "a/b.xml" of "a/b.jpg".
std::string label_name(const ImageInfo& image, const std::string& ending);
// Throws InputError where two images have one.
void check_label_names(const GroundTruth& truth, const std::string& ending, const std::string& form);
// The name of each category by its id.
const std::string& category_name(const GroundTruth& truth, int64_t id);
int64_t crowds_of(const LabelList& list);
// Objects, not crowds, whose area is known, and not that of their box: those without a mask, which is said to
// be left out, or all.
int64_t own_areas(const LabelList& list, bool keeps_masks = false);
// Notes like "3 crowds are left out: YOLO has none" for counts above 0.
struct LeftOut {
  int64_t count;
  const char *one, *many, *what;  // "crowd is", "crowds are", "left out: YOLO has none"
};
void note_left_out(LabelFiles& files, const LabelList& list, std::initializer_list<LeftOut> counts);

}  // namespace saccade
