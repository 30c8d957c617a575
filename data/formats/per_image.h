// Images and objects in files that identify classes by name; and what Pascal VOC and LabelMe share, an
// annotation file for each image.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/box.h"
#include "data/formats/data_format.h"

namespace saccade {

struct ImageObject {
  std::string name;
  Box box = {};
  bool is_difficult = false;  // neither required nor wrong, as in VOC's evaluation
  std::shared_ptr<const Segmentation> segmentation = {};  // null if there is none
  std::string mask_fault = {};                            // "path: line N: what"; empty if there is none
  int64_t number = 0;                                     // its place in the file: Place::number
};

// Counts shapes other than boxes.
struct ShapeKinds {
  int64_t boxed = 0;     // polygons and similar shapes, replaced by the upright box around them
  int64_t left_out = 0;  // lines, points and similar shapes
  std::string first;     // the first of these with its place

  void leave_out(const std::string& what);
  void add(const ShapeKinds& other);
  std::vector<std::string> notes() const;
};

struct ImageAnnotation {
  std::string file_name;          // "" if the file does not give it
  int64_t width = 0, height = 0;  // 0 if not given
  std::vector<ImageObject> objects;
  ShapeKinds shapes;
  std::vector<std::string> problems;  // "path: line N: what"; the objects concerned are left out
};

// Parses a side of an image in pixels; 0 if the text has none.
int64_t image_side(std::string_view text);
// Makes a mask of the polygon.
std::shared_ptr<const Segmentation> polygon_mask(std::vector<double> points);
// Adds the image; its size is used if both sides are given.
void add_image(GroundTruth& truth, const std::string& file_name, int64_t width, int64_t height, Place place);
// Adds the objects to the last image, with their masks if paths.wants.masks is set; file: the one that
// contains them. An object of an unknown class is reported and left out.
void add_objects(GroundTruth& truth, const std::vector<ImageObject>& objects,
                 const std::map<std::string, int64_t>& ids, Place file, const DataPaths& paths,
                 const ProblemReport& report);

// The annotation files of a set.
struct AnnotationFiles {
  std::string root, folder;                // the folder of the files, and the one above it
  std::vector<std::string> stems;          // relative to the folder, without the ending
  std::string ending;                      // ".xml"
  bool is_list = false;                    // the stems come from a list
  std::vector<int64_t> lines = {};         // line numbers in the list, one for each stem
  std::vector<std::string> links, around;  // found in the folder: see FolderListing
  // Throws InputError if it is no such file.
  ImageAnnotation (*read)(const std::string& path) = nullptr;
  const char *one = "", *many = "";  // "XML file", "XML files"
  const char* image_key = "";        // the field with the image's name
  const char* unit = "line";         // unit of an object's place in the file
  BoxForm box_form = BoxForm::kCorners;
  bool is_relative = false;  // the image's name is relative to the file, not to the folder of images

  std::string path(size_t i) const;
};
// Finds splits that are subfolders of the annotations: Annotations/train, whose images are in the folder with
// that name in `images`, or else in `images`. Finds nothing if there are files next to these folders, or if
// none has training images. `holds`: whether a folder has annotations.
void find_in_annotations(const std::string& annotations, const std::string& ending, const std::string& images,
                         const std::function<bool(const std::string& folder)>& holds, DataSplits& splits);
// All files of a folder.
AnnotationFiles annotation_files_in(const std::string& folder, const std::string& ending);

// The image of a file is the one with the file's name, else the one that it names. Classes are numbered in
// the order of a classes.txt next to the files or above them, else by the names of this set and of `others`.
GroundTruth read_per_image(const AnnotationFiles& files, const std::vector<AnnotationFiles>& others,
                           const DataPaths& paths, const ProblemReport& report);

}  // namespace saccade
