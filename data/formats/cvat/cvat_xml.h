// "CVAT for images 1.1": one XML file for all images.
#pragma once

#include <string>
#include <vector>

#include "data/formats/per_image.h"

namespace saccade {

struct CvatImage {
  std::string name, subset;
  int64_t width = 0, height = 0;  // 0: not said
  int64_t line = 0;               // of the file
  std::vector<ImageObject> objects;
};

struct CvatFile {
  std::vector<std::string> labels;  // of the task, in its order; empty: it says none
  std::vector<CvatImage> images;
  ShapeKinds shapes;
  std::vector<std::string> problems;  // "path: line N: what"; their objects are left out
};

// Throws InputError where it is no such XML. The runs of masks are read where they are wanted.
CvatFile read_cvat_xml(const std::string& path, bool masks = false);
// The first image alone, without its shapes. What is wrong behind it is not seen.
CvatFile first_cvat_image(const std::string& path);
// Whether images say which subsets they are of.
bool names_subsets(const std::string& path);
// By its first bytes.
bool is_cvat_xml(const std::string& path);

}  // namespace saccade
