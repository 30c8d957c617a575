// Pairs images with their label maps.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/label_maps/class_table.h"

namespace saccade {

struct LabelledImage {
  std::string image;  // relative to the folder of images
  std::string label;  // the path of its label map
};

struct LabelledImages {
  std::string images;  // the folder of the images
  LabelLayout layout = LabelLayout::kPlain;
  std::vector<LabelledImage> pairs;       // sorted by the names of the images
  std::vector<std::string> list_folders;  // folders that may contain a list of classes
  std::vector<std::string> links;         // links that were followed in the folder of images
  std::vector<std::string> notes;         // on what was skipped
  bool are_all = false;                   // all images of the folder, not those of a list
};

// Returns whether these paths are label maps: a folder with PNG files, or a list of ImageSets/Segmentation.
bool are_label_maps(const DataPaths& paths);
// If both folders are the same, label maps are called IMAGE_mask.png.
// Images without a label map and label maps without an image are reported, each by its file. Throws
// InputError if there is no such folder or list.
LabelledImages pair_images(const DataPaths& paths, const ProblemReport& report);

// Returns those paths that are label maps next to their images ("a_mask.png" next to "a.jpg").
std::vector<std::string> maps_beside_images(const std::vector<std::string>& paths);

// Returns a folder that would hold label maps if its JPEG files were PNG files; "" if there is none.
std::string folder_of_jpeg_maps(const std::string& folder);

// Finds the usual layouts: ADE20K, Cityscapes, Pascal VOC and CVAT, folders of images and of label maps, and
// Roboflow's folders with both.
DataSplits find_label_maps(const std::string& folder);

}  // namespace saccade
