// Which images a YOLO data set has, and where their labels lie.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/listing.h"
#include "data/formats/yolo/yolo_names.h"

namespace saccade {

// Where something lies that `file` names, `path` being what its names are relative to next to the file's own
// folder; "": nowhere. What exporters write is often relative to another folder: it is looked for without a
// leading "../" or "data/", too.
std::string existing_place(const std::string& file, const std::string& path, const std::string& name);

// A folder of images, or a list of them.
struct YoloSource {
  std::string place;
  bool is_list = false;
};
// Those of a split. Throws InputError naming the file, the line and what is not there or no such thing.
std::vector<YoloSource> sources_of(const YoloYaml& set, const std::string& file, const std::string& split);
// The folder that all of them lie in; that of a list's images is the set's.
std::string common_root(const std::vector<YoloSource>& sources, const YoloYaml& set, const std::string& file);

struct YoloImage {
  std::string name;    // below the root
  std::string folder;  // of the source, that the folder of the labels belongs to
  size_t list = 0;     // that names it: one of YoloImages::lists, from 1; 0: a folder that was listed
  int64_t line = 0;    // of the list
};
struct YoloImages {
  std::string root;
  std::vector<YoloImage> images;                                // each once, in the order of the sources
  std::vector<std::pair<std::string, FolderListing>> listings;  // of the sources that are folders
  std::vector<std::string> notes;  // what of the folders and lists is passed over
  std::vector<std::string> links;  // below the root, that were followed
  std::vector<std::string> lists;  // among the sources
};
YoloImages images_of(const std::vector<YoloSource>& sources, const std::string& root, const YoloYaml& set,
                     const std::string& file);

// The folder of the labels that belongs to a folder of images: ".../labels/train" of ".../images/train";
// "" where there is none.
std::string label_folder(const std::string& images);
// The labels of each of the images: in that folder, in the one that belongs to its own folder,
// or next to it; "": there are none.
std::vector<std::string> label_files(const YoloImages& images);
// Where they are expected, for messages.
std::string expected_label_file(const std::string& root, const YoloImage& image);
// Whether a file is one of labels, and of objects, by its name and first bytes.
bool is_label_file(const std::string& path);
// Files of labels, in the folders of labels and next to the images, that none of `used` is.
std::vector<std::string> labels_without_image(const YoloImages& images, const std::vector<std::string>& used);

// Of Ultralytics, Roboflow and CVAT: a data.yaml that names the images of the splits; Darknet's obj.data; a
// list of classes next to images and labels, in folders of their own or, as labelImg leaves them, in one.
// Throws InputError where a file names what is not there.
DataSplits find_yolo(const std::string& folder);
// Of a data.yaml or an obj.data of any name.
DataSplits find_yolo_in_file(const std::string& file);

}  // namespace saccade
