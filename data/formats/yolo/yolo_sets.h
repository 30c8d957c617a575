// Finds the images of a YOLO data set and their labels.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/listing.h"
#include "data/formats/yolo/yolo_names.h"

namespace saccade {

// Returns the place of something that `file` names; "" if it does not exist. `path` is the folder that names
// are relative to, besides the file's own folder. Exporters often write paths relative to another folder, so
// a name is also tried without a leading "../", "./" or "data/".
std::string existing_place(const std::string& file, const std::string& path, const std::string& name);

// A folder of images, or a list of them.
struct YoloSource {
  std::string place;
  bool is_list = false;
};
// Returns the sources of a split. Throws InputError naming the file, the line and what is missing or invalid.
std::vector<YoloSource> sources_of(const YoloYaml& set, const std::string& file, const std::string& split);
// Returns the folder that contains all of them; for a list's images, it is the folder of the set.
std::string common_root(const std::vector<YoloSource>& sources, const YoloYaml& set, const std::string& file);

struct YoloImage {
  std::string name;    // relative to the root
  std::string folder;  // of the source; the folder of the labels corresponds to it
  size_t list = 0;     // the list that names it: one of YoloImages::lists, from 1; 0 if a folder was listed
  int64_t line = 0;    // in the list
};
struct YoloImages {
  std::string root;
  std::vector<YoloImage> images;                                // each once, in the order of the sources
  std::vector<std::pair<std::string, FolderListing>> listings;  // of the sources that are folders
  std::vector<std::string> notes;  // on what was skipped in the folders and lists
  std::vector<std::string> links;  // links below the root that were followed
  std::vector<std::string> lists;  // the lists among the sources
};
YoloImages images_of(const std::vector<YoloSource>& sources, const std::string& root, const YoloYaml& set,
                     const std::string& file);

// Returns the folder of the labels for a folder of images: ".../labels/train" for ".../images/train";
// "" if there is none.
std::string label_folder(const std::string& images);
// Returns the labels of each of the images: in that folder, in the one that corresponds to its own folder,
// or next to it; "" if there are none.
std::vector<std::string> label_files(const YoloImages& images);
// The expected place of the labels, for messages.
std::string expected_label_file(const std::string& root, const YoloImage& image);
// Returns whether a file has labels of objects, by its name and first bytes.
bool is_label_file(const std::string& path);
// Returns the label files, in the folders of labels and next to the images, that are not in `used`.
std::vector<std::string> labels_without_image(const YoloImages& images, const std::vector<std::string>& used);

// Finds the layouts of Ultralytics, Roboflow and CVAT: a data.yaml that names the images of the splits;
// Darknet's obj.data; a list of classes next to images and labels, in separate folders or, as labelImg leaves
// them, in one. Throws InputError if a file names something that does not exist.
DataSplits find_yolo(const std::string& folder);
// The same for a data.yaml or an obj.data with any name.
DataSplits find_yolo_in_file(const std::string& file);

}  // namespace saccade
