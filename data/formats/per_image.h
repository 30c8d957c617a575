// Images and objects as files say them that know classes by their names; and what Pascal VOC and LabelMe
// share, an annotation file for each image.
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
  bool is_difficult = false;  // neither asked for nor wrong, as VOC's evaluation has it
  std::shared_ptr<const Segmentation> segmentation = {};  // null: none
  std::string mask_fault = {};                            // "path: line N: what"; "": none
  int64_t number = 0;                                     // where it stands in the file: Place::number
};

// Shapes that are no boxes.
struct ShapeKinds {
  int64_t boxed = 0;     // polygons and the like, for which the upright box around them is taken
  int64_t left_out = 0;  // lines, points and the like
  std::string first;     // of these, with its place

  void leave_out(const std::string& what);
  void add(const ShapeKinds& other);
  std::vector<std::string> notes() const;
};

struct ImageAnnotation {
  std::string file_name;          // "" where the file does not say
  int64_t width = 0, height = 0;  // 0: not said
  std::vector<ImageObject> objects;
  ShapeKinds shapes;
  std::vector<std::string> problems;  // "path: line N: what"; their objects are left out
};

// A side of an image in pixels; 0: the text says none.
int64_t image_side(std::string_view text);
// The polygon as a mask.
std::shared_ptr<const Segmentation> polygon_mask(std::vector<double> points);
// Adds the image, whose size counts where both sides are said.
void add_image(GroundTruth& truth, const std::string& file_name, int64_t width, int64_t height, Place place);
// Adds the objects to the last image, with their masks where paths.wants.masks wants them; file: that they
// stand in. One of an unknown class is reported and left out.
void add_objects(GroundTruth& truth, const std::vector<ImageObject>& objects,
                 const std::map<std::string, int64_t>& ids, Place file, const DataPaths& paths,
                 const ProblemReport& report);

// The files of a set.
struct AnnotationFiles {
  std::string root, folder;                // the folder of the files, and the one above it
  std::vector<std::string> stems;          // below the folder, without the ending
  std::string ending;                      // ".xml"
  bool is_list = false;                    // the stems are those of a list
  std::vector<int64_t> lines = {};         // of it, one for each stem
  std::vector<std::string> links, around;  // where they were found: FolderListing's
  // Throws InputError for what is no such file.
  ImageAnnotation (*read)(const std::string& path) = nullptr;
  const char *one = "", *many = "";  // "XML file", "XML files"
  const char* image_key = "";        // what the name of the image stands in
  const char* unit = "line";         // that an object's place in the file is counted in
  bool is_relative = false;  // that name is one from where the file lies, not below the folder of images

  std::string path(size_t i) const;
};
// Splits that are folders in that of the annotations: Annotations/train, whose images are in the folder of
// that name in `images`, or else in `images`. Nothing where files are next to these folders, or none is of
// training images. `holds`: whether a folder has annotations.
void find_in_annotations(const std::string& annotations, const std::string& ending, const std::string& images,
                         const std::function<bool(const std::string& folder)>& holds, DataSplits& splits);
// All of a folder.
AnnotationFiles annotation_files_in(const std::string& folder, const std::string& ending);

// The image of a file is the one with its own name, else the one that it names. Classes are numbered in the
// order of a classes.txt next to the files or above them, else of the names of this set and of `others`.
GroundTruth read_per_image(const AnnotationFiles& files, const std::vector<AnnotationFiles>& others,
                           const DataPaths& paths, const ProblemReport& report);

}  // namespace saccade
