// The ways in which data sets lie on disk. A format is one file: the reader and one line that registers it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/formats/checks/findings.h"
#include "data/formats/classification_dataset.h"
#include "data/formats/detection_dataset.h"
#include "data/formats/joining/class_choice.h"

namespace saccade {

// What a data set says of each image: which objects are in it, or the class of the whole.
enum class Annotated { kObjects, kClass };

enum class Part { kAll, kTraining, kValidation };

// Where a data set lies, as data.train and data.val of a configuration say.
struct DataPaths {
  std::string annotations;  // of a detection set
  std::string images;  // the folder of the images; "": the images are not wanted, only what is known of them
  std::string format = {};  // a registered name; "": the one that recognises the paths
  bool allow_outside =
      false;  // file names may be absolute, hold ".." or be links that lead out of the folder
  bool skip_bad_images = false;       // images that cannot be read are told, not refused
  bool may_lack_annotations = false;  // of COCO, as image_info_test-dev2017.json does
  bool masks = false;                 // whether the segmentations of objects are read
  bool look_at_images = true;         // whether opening or checking a set looks at its images at all
  // What formats that know classes by their names number them by; empty: as the format says.
  std::vector<Category> categories = {};
  // Of a set that is split by a draw (data/formats/splits.h).
  Part part = Part::kAll;
  double val_share = 0;
  uint64_t seed = 0;
  // Only so many images: the first that have an object, or in turn the first ones of each class; 0: all.
  int64_t most = 0;
  // Of annotations that name the images of several splits (data.yaml, obj.data): "train", "val" or "test". Then `images` is the folder
  // that all of them lie in; "": the images are those of the folder `images`.
  std::string split = {};
  // The splits beside this one: their annotations, images and names. Formats that know classes by name only number those of all of them.
  std::vector<DataPaths> beside = {};
  // Which classes count, and as what.
  ClassChoice choice = {};
  // Of several data sets as one (joining/united_paths.h): these, of which each says where it lies and what part of it is drawn; the rest
  // is said here. Then `annotations` is their name for messages, and `images` the folder that all images lie in.
  std::vector<DataPaths> sets = {};
};

// What a folder holds.
struct DataSplits {
  std::string format = {};
  std::optional<DataPaths> train = {}, val = {}, test = {};
  std::vector<std::string> notes = {};  // what was passed over, a line each
  std::string folder = {};              // that a file which describes the set names as the set's; "": its own
  std::vector<std::string> drawn = {};  // which validation images were drawn (draw_validation), a line each
};

// What the files of a format say of objects.
struct ProvidedParts {
  bool boxes = true, masks = false;
};

struct DetectionFormat {
  std::string name;
  std::string summary;  // one line
  // Whether the paths look like this format, whether or not they exist; nullptr: it has to be asked for by name.
  bool (*recognises)(const DataPaths& paths);
  // The lists, in the order of the files; paths.images may be empty where a format can do without. What is wrong with a record is
  // reported in a line that names the file and the place in it, and the record is left out. Throws InputError for what leaves no list.
  GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report) = nullptr;
  // The usual layouts of a folder in this format, in words, and what of them is there; nullptr: there are none.
  std::string layout = {};
  // Throws InputError where something that the folder's own files name is not there: nothing else is taken in its place.
  DataSplits (*find)(const std::string& folder) = nullptr;
  // What a single file names: --data data.yaml. Nothing where it is no file of this format; nullptr: there is no such thing.
  DataSplits (*find_in_file)(const std::string& file) = nullptr;
  // For notes on what is not read (data/formats/checks/unused_data.h): whether a file with one of these endings holds labels, by its first
  // bytes.
  std::vector<const char*> label_endings = {};
  bool (*holds_labels)(const std::string& file) = nullptr;
  // The files that the labels of a set are read from, or folders that are read as a whole; nullptr: its annotations alone.
  std::vector<std::string> (*label_places)(const DataPaths& paths) = nullptr;
  // Those of what a list beside the set names; none where it is no list.
  std::vector<std::string> (*named_in)(const std::string& list, const DataPaths& paths) = nullptr;
  // Whether its files number the classes; else these are known by their names.
  bool has_category_ids = false;
  ProvidedParts provides = {};
  std::string file = {};  // where it is registered
};

struct ClassificationFormat {
  std::string name;
  std::string summary;  // one line
  bool (*recognises)(const DataPaths& paths);
  // With `classes`, these are the classes and labels are places in that list. Throws InputError naming the file.
  std::shared_ptr<const ClassificationDataset> (*open)(const DataPaths& paths,
                                                       const std::vector<std::string>& classes);
  std::string file = {};
};

inline Registry<DetectionFormat>& detection_formats() {
  static Registry<DetectionFormat> registry("data format");
  return registry;
}
inline Registry<ClassificationFormat>& classification_formats() {
  static Registry<ClassificationFormat> registry("data format");
  return registry;
}

// The readers see one set with all of its classes; what paths.sets and paths.choice ask for is done here, for all formats alike.
// By paths.format, else by what the paths look like: COCO, and for classification image folders, where no format
// recognises them. Throw InputError for an unknown format and where several recognise the paths.
// The images, where they are wanted, are looked at (data/formats/checks/image_check.h); what there is to say about them is added to notes.
// Where paths.masks wants masks, a format that has none is an error.
std::shared_ptr<const DetectionDataset> open_detection_dataset(const DataPaths& paths,
                                                               LabelScheme labels = LabelScheme::kContiguous,
                                                               std::vector<std::string>* notes = nullptr);
std::shared_ptr<const ClassificationDataset> open_classification_dataset(
    const DataPaths& paths, const std::vector<std::string>& classes = {},
    std::vector<std::string>* notes = nullptr);

// Of a detection set; the members of its format tell what they do.
// Everything that is wrong with a set, not only the first thing. One line per problem, each naming the file or the annotation, image or
// category id: missing or mistyped fields, numbers that are not finite, boxes of no or negative size or outside their
// image, masks with a fault, unknown and repeated ids, missing or undecodable files and those outside of their folder, and files whose size, as they
// are shown, differs from what the annotations say. A file that cannot be read at all is one problem. paths.images may be empty: then
// no image is looked at. Beside it what is allowed but rarely meant, and what there is. `left` gets what is right: records and images
// with a fault are not in it, boxes are cut to their image, and every image has a size where the images were looked at. `all` gets the
// lists as they are.
DatasetReport check_detection_dataset(const DataPaths& paths, GroundTruth* left = nullptr, int threads = 0,
                                      GroundTruth* all = nullptr);
// Likewise of a classification set: its folders and every image. Where `classes` is empty it gets those of the set, else the set must have
// them.
DatasetReport check_classification_dataset(const DataPaths& paths, std::vector<std::string>& classes,
                                           int threads = 0);
// A note on the set with its name before it; one on a set among several has that set's already.
std::string named_note(const std::string& note, const DataPaths& paths);
// Ids are unique and known; the images are not looked at.
GroundTruth read_ground_truth(const DataPaths& paths);
// The same paths with the masks wanted, of each set whose format has them.
DataPaths with_masks(DataPaths paths);

}  // namespace saccade
