// The formats of data sets on disk. A format is one file with the reader and one line that registers it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/formats/checks/findings.h"
#include "data/formats/dataset.h"
#include "data/formats/joining/class_choice.h"

namespace saccade {

// The kinds of information about images in the files of a data set, or those that a task needs.
struct Contents {
  bool boxes = false, masks = false;  // of the objects in the images
  bool image_classes = false;         // of each image as a whole
  bool label_maps = false;            // of each pixel

  bool has(const Contents& all) const { return common(all) == all; }
  // Returns what this and the other have in common.
  Contents common(const Contents& other) const;
  bool is_empty() const { return *this == Contents{}; }
  std::string text() const;  // "boxes and masks"
  bool operator==(const Contents&) const = default;
};

// The meaning of the values in label maps, from data.label_maps of a configuration.
struct LabelMapOptions {
  std::vector<int64_t> ignore = {};  // values without a class; empty: 255, and 65535 for 16 bits
  bool reduce_zero_label = false;    // 0 also has no class, and the first name belongs to 1
  std::vector<std::string> names = {};
  std::string list = {};                  // a file with the names
  std::string background = "background";  // class of pixels without an object in drawn label maps; "": none
};

enum class Part { kAll, kTraining, kValidation };

// The place of a data set, from data.train and data.val of a configuration.
struct DataPaths {
  std::string annotations;  // of a detection set
  std::string images;       // the folder of the images; "" if the images themselves are not needed
  std::string format = {};  // a registered name; "" for the format that recognises the paths
  bool allow_outside =
      false;  // file names may be absolute, contain ".." or be links that lead out of the folder
  bool skip_bad_images = false;       // unreadable images are reported instead of refused
  bool may_lack_annotations = false;  // for COCO, as in image_info_test-dev2017.json
  Contents wants = {.boxes = true};   // the contents that must exist and are read
  LabelMapOptions label_maps = {};
  bool look_at_images = true;  // whether opening or checking a set inspects its images at all
  // The numbering of classes for formats that identify them by name; if empty, the format decides.
  std::vector<Category> categories = {};
  // For a set that is split at random (data/formats/splits.h).
  Part part = Part::kAll;
  double val_fraction = 0;
  uint64_t seed = 0;
  // At most this many images: the first that have an object, or the first of each class in turn; 0: all.
  int64_t most = 0;
  // For annotations that name the images of several splits (data.yaml, obj.data): "train", "val" or "test";
  // `images` is the folder that contains all of them. If "", the images are those of that folder.
  std::string split = {};
  // The splits next to this one: their annotations, images and names. Formats that identify classes only by
  // name number those of all splits.
  std::vector<DataPaths> beside = {};
  // The classes that count, and what they are mapped to.
  ClassChoice choice = {};
  // For several data sets united to one (joining/united_paths.h): the sets. Each gives its place and the part
  // of it that is drawn; the rest is given here. Then `annotations` is their name for messages, and `images`
  // the folder that contains all images.
  std::vector<DataPaths> sets = {};

  // For messages: the annotations, or the folder of the images if there is nothing else.
  const std::string& name() const { return annotations.empty() ? images : annotations; }
};

// The contents of a folder.
struct DataSplits {
  std::string format = {};
  std::optional<DataPaths> train = {}, val = {}, test = {};
  std::vector<std::string> notes = {};  // what was skipped, one line each
  std::string folder = {};              // of the set, if a describing file names it; "" for its own
  std::vector<std::string> drawn = {};  // which validation images were drawn (draw_validation), one line each

  bool is_empty() const { return !train && !val && !test; }
  const std::optional<DataPaths>& first() const { return train ? train : val ? val : test; }  // that exists
};

struct DataFormat {
  std::string name;
  std::string summary;  // one line
  // Returns whether the paths look like this format, whether or not they exist; nullptr if the format is the
  // default for paths that no other format with the same contents recognises.
  bool (*recognises)(const DataPaths& paths);
  // Reads the lists in the order of the files; paths.images may be empty if a format can do without. An error
  // in a record is reported in a line that names the file and the place in it, and the record is left out.
  // Throws InputError for errors that leave no list.
  GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report) = nullptr;
  // The usual layouts of a folder in this format, in words, and a function that finds the existing parts;
  // nullptr if there are none.
  std::string layout = {};
  // Throws InputError if something that the folder's own files name does not exist:
  // nothing else is used instead.
  DataSplits (*find)(const std::string& folder) = nullptr;
  // Returns what a single file names: --data data.yaml. Returns nothing if it is no file of this format;
  // nullptr if the format has no such files.
  DataSplits (*find_in_file)(const std::string& file) = nullptr;
  // For notes on unread data (data/formats/checks/unused_data.cpp): whether a file with one of these endings
  // contains labels, judged by its first bytes.
  std::vector<const char*> label_endings = {};
  bool (*holds_labels)(const std::string& file) = nullptr;
  // The files that the labels of a set are read from, or folders that are read as a whole; nullptr
  // if these are only its annotations.
  std::vector<std::string> (*label_places)(const DataPaths& paths) = nullptr;
  // The same for the entries of a list next to the set; none if it is no list.
  std::vector<std::string> (*named_in)(const std::string& list, const DataPaths& paths) = nullptr;
  // Whether its files number the classes and images; otherwise these are identified by their names.
  bool has_category_ids = false;
  Contents provides = {.boxes = true};
  std::string file = {};  // where it is registered

  // The contents including those that can be derived: label maps from masks.
  Contents offers() const;
};

inline Registry<DataFormat>& data_formats() { return registry_of<DataFormat>("data format"); }
// The names of the formats that provide all of it.
std::vector<std::string> formats_with(const Contents& wanted);
// Throws InputError, starting with `what`, for an unknown name or for a format that lacks some of it.
const DataFormat& find_format(const std::string& name, const Contents& wanted, const std::string& what = "");

// The readers see one set with all of its classes; paths.sets and paths.choice are handled here, for all
// formats alike. The format is paths.format, or else the one that recognises the paths among those that
// provide something of paths.wants. Throws InputError for an unknown format, if several recognise the paths,
// and for one that lacks something that is wanted. The images, if needed, are inspected
// (data/formats/checks/image_check.h); messages about the set are added to notes. If there are masks, images
// get the size of their files, if it was read.
std::shared_ptr<const Dataset> open_dataset(const DataPaths& paths,
                                            LabelScheme labels = LabelScheme::kContiguous,
                                            std::vector<std::string>* notes = nullptr);

// Finds everything that is wrong with a set, not only the first error. One line per problem, each naming the
// file or the annotation, image or category id: missing or mistyped fields, numbers that are not finite,
// boxes of no or negative size or outside their image, faulty masks, unknown and repeated ids, missing or
// undecodable files and those outside their folder, and files whose shown size differs from the annotations.
// A file that cannot be read at all is one problem. paths.images may be empty: then no image is inspected.
// The report also has what is allowed but rarely intended, and a summary of the contents. `left` gets the
// correct part: without faulty records and images, with boxes clipped to their image, and with the size of
// every image if the images were inspected. `all` gets the unchanged lists.
DatasetReport check_dataset(const DataPaths& paths, GroundTruth* left = nullptr, int threads = 0,
                            GroundTruth* all = nullptr);
// Puts the set's name before a note on it; a note on a set among several already has it.
std::string named_note(const std::string& note, const DataPaths& paths);
// The ids are unique and known; the images are not inspected.
GroundTruth read_ground_truth(const DataPaths& paths);
// The same paths with masks wanted, for each set whose format has them.
DataPaths with_masks(DataPaths paths);

}  // namespace saccade
