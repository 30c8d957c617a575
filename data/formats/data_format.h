// The ways in which data sets are on disk. A format is one file: the reader and one line that registers it.
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

// What the files of a data set say of images; what a task needs of them.
struct Contents {
  bool boxes = false, masks = false;  // of the objects in them
  bool image_classes = false;         // of each as a whole
  bool label_maps = false;            // of each pixel

  bool has(const Contents& all) const { return common(all) == all; }
  // What this and the other have in common.
  Contents common(const Contents& other) const;
  bool is_empty() const { return *this == Contents{}; }
  std::string text() const;  // "boxes and masks"
  bool operator==(const Contents&) const = default;
};

// What the values in label maps mean, as data.label_maps of a configuration says it.
struct LabelMapOptions {
  std::vector<int64_t> ignore = {};  // values of no class; empty: 255, and of 16 bits 65535
  bool reduce_zero_label = false;    // nor is 0, and the first name is that of 1
  std::vector<std::string> names = {};
  std::string list = {};                  // a file of them
  std::string background = "background";  // of drawn ones: the class of pixels without an object; "": none
};

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
  Contents wants = {.boxes = true};   // what is read of what is there, and must be there
  LabelMapOptions label_maps = {};
  bool look_at_images = true;  // whether opening or checking a set looks at its images at all
  // What formats that know classes by their names number them by; empty: as the format says.
  std::vector<Category> categories = {};
  // Of a set that is split by a draw (data/formats/splits.h).
  Part part = Part::kAll;
  double val_fraction = 0;
  uint64_t seed = 0;
  // Only so many images: the first that have an object, or in turn the first ones of each class; 0: all.
  int64_t most = 0;
  // Of annotations that name the images of several splits (data.yaml, obj.data): "train", "val" or "test".
  // Then `images` is the folder that all of them lie in; "": the images are those of the folder `images`.
  std::string split = {};
  // The splits next to this one: their annotations, images and names. Formats that know classes by name only
  // number those of all of them.
  std::vector<DataPaths> beside = {};
  // Which classes count, and as what.
  ClassChoice choice = {};
  // Of several data sets as one (joining/united_paths.h): these, of which each says where it lies and what
  // part of it is drawn; the rest is said here. Then `annotations` is their name for messages, and `images`
  // the folder that all images lie in.
  std::vector<DataPaths> sets = {};

  // For messages: the annotations, or the folder of the images where these alone are the set.
  const std::string& name() const { return annotations.empty() ? images : annotations; }
};

// What a folder holds.
struct DataSplits {
  std::string format = {};
  std::optional<DataPaths> train = {}, val = {}, test = {};
  std::vector<std::string> notes = {};  // what was passed over, a line each
  std::string folder = {};              // that a file which describes the set names as the set's; "": its own
  std::vector<std::string> drawn = {};  // which validation images were drawn (draw_validation), a line each

  bool is_empty() const { return !train && !val && !test; }
  const std::optional<DataPaths>& first() const { return train ? train : val ? val : test; }  // that is there
};

struct DataFormat {
  std::string name;
  std::string summary;  // one line
  // Whether the paths look like this format, whether or not they exist; nullptr: it is what no other that
  // provides the same recognises.
  bool (*recognises)(const DataPaths& paths);
  // The lists, in the order of the files; paths.images may be empty where a format can do without. What is
  // wrong with a record is reported in a line that names the file and the place in it, and the record is left
  // out. Throws InputError for what leaves no list.
  GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report) = nullptr;
  // The usual layouts of a folder in this format, in words, and what of them is there; nullptr:
  // there are none.
  std::string layout = {};
  // Throws InputError where something that the folder's own files name is not there:
  // nothing else is taken in its place.
  DataSplits (*find)(const std::string& folder) = nullptr;
  // What a single file names: --data data.yaml. Nothing where it is no file of this format; nullptr:
  // there is no such thing.
  DataSplits (*find_in_file)(const std::string& file) = nullptr;
  // For notes on what is not read (data/formats/checks/unused_data.cpp): whether a file with one of these
  // endings holds labels, by its first bytes.
  std::vector<const char*> label_endings = {};
  bool (*holds_labels)(const std::string& file) = nullptr;
  // The files that the labels of a set are read from, or folders that are read as a whole; nullptr:
  // its annotations alone.
  std::vector<std::string> (*label_places)(const DataPaths& paths) = nullptr;
  // Those of what a list next to the set names; none where it is no list.
  std::vector<std::string> (*named_in)(const std::string& list, const DataPaths& paths) = nullptr;
  // Whether its files number the classes and images; else these are known by their names.
  bool has_category_ids = false;
  Contents provides = {.boxes = true};
  std::string file = {};  // where it is registered

  // With what can be made of it: label maps of masks.
  Contents offers() const;
};

inline Registry<DataFormat>& data_formats() { return registry_of<DataFormat>("data format"); }
// The names of those that provide all of it.
std::vector<std::string> formats_with(const Contents& wanted);
// Throws InputError, which begins with `what`, for a name of no format, and of one that lacks some of it.
const DataFormat& find_format(const std::string& name, const Contents& wanted, const std::string& what = "");

// The readers see one set with all of its classes; what paths.sets and paths.choice ask for is done here,
// for all formats alike.
// By paths.format, else by what the paths look like among the formats that provide something of paths.wants.
// Throw InputError for an unknown format, where several recognise the paths,
// and for one that lacks something of what is wanted.
// The images, where they are wanted, are looked at (data/formats/checks/image_check.h); what there is to say
// about the set is added to notes. Where there are masks, images get the size of their files, if it was seen.
std::shared_ptr<const Dataset> open_dataset(const DataPaths& paths,
                                            LabelScheme labels = LabelScheme::kContiguous,
                                            std::vector<std::string>* notes = nullptr);

// Everything that is wrong with a set, not only the first thing. One line per problem, each naming the file
// or the annotation, image or category id: missing or mistyped fields, numbers that are not finite, boxes of
// no or negative size or outside their image, masks with a fault, unknown and repeated ids, missing or
// undecodable files and those outside their folder, and files whose size, as they are shown, differs from
// what the annotations say. A file that cannot be read at all is one problem. paths.images may be empty: then
// no image is looked at. Beside it what is allowed but rarely meant, and what there is. `left` gets what is
// right: records and images with a fault are not in it, boxes are cut to their image, and every image has a
// size where the images were looked at. `all` gets the lists as they are.
DatasetReport check_dataset(const DataPaths& paths, GroundTruth* left = nullptr, int threads = 0,
                            GroundTruth* all = nullptr);
// A note on the set with its name before it; one on a set among several has that set's already.
std::string named_note(const std::string& note, const DataPaths& paths);
// Ids are unique and known; the images are not looked at.
GroundTruth read_ground_truth(const DataPaths& paths);
// The same paths with the masks wanted, of each set whose format has them.
DataPaths with_masks(DataPaths paths);

}  // namespace saccade
