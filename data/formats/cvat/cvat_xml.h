// "CVAT for images 1.1": one XML file for all images.
#pragma once

#include <string>
#include <vector>

#include "data/formats/per_image.h"

namespace saccade {

struct CvatImage {
  std::string name, subset;
  int64_t width = 0, height = 0;  // 0 if not given
  int64_t line = 0;               // of the file
  std::vector<ImageObject> objects;
};

struct CvatFile {
  std::vector<std::string> labels;  // of the task, in its order; empty if it has none
  std::vector<CvatImage> images;
  ShapeKinds shapes;
  std::vector<std::string> problems;  // "path: line N: what"; the objects concerned are left out
  std::vector<std::string> notes;     // "line N: what"
};

// Throws InputError if it is no such XML. The runs of masks are read only if requested.
CvatFile read_cvat_xml(const std::string& path, bool masks = false);
// Reads only the first image, without its shapes. Errors after it are not noticed.
CvatFile first_cvat_image(const std::string& path);
// Returns whether images name the subsets that they belong to.
bool names_subsets(const std::string& path);
// Recognises it by its first bytes.
bool is_cvat_xml(const std::string& path);

}  // namespace saccade
