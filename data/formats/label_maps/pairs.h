// Which label map belongs to which image.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/label_maps/class_table.h"

namespace saccade {

struct LabelledImage {
  std::string image;  // below the folder of images
  std::string label;  // the path of its label map
};

struct LabelledImages {
  std::string images;  // the folder of the images
  LabelLayout layout = LabelLayout::kPlain;
  std::vector<LabelledImage> pairs;       // by the names of the images
  std::vector<std::string> list_folders;  // where a list of classes may lie
  std::vector<std::string> links;         // followed in the folder of images
  std::vector<std::string> notes;         // on what of it was passed over
  bool are_all = false;                   // the images of the folder, not those of a list
};

// Whether these paths are label maps: a folder with PNG files, or a list of ImageSets/Segmentation.
bool are_label_maps(const DataPaths& paths);
// Where both folders are one, label maps are called IMAGE_mask.png.
// Images without a label map and label maps without an image are reported, each by its file. Throws
// InputError where there is no such folder or list.
LabelledImages pair_images(const DataPaths& paths, const ProblemReport& report);

// Of these paths, those of label maps that are next to their images ("a_mask.png" next to "a.jpg").
std::vector<std::string> maps_beside_images(const std::vector<std::string>& paths);

// A folder that would be one of label maps if its files were PNG files, not JPEG's; "": there is none.
std::string folder_of_jpeg_maps(const std::string& folder);

// The usual layouts: ADE20K, Cityscapes, Pascal VOC and CVAT, folders of images and of label maps, and
// Roboflow's folders of both.
DataSplits find_label_maps(const std::string& folder);

}  // namespace saccade
