// One annotation file of LabelMe.
#pragma once

#include <string>

#include "data/formats/per_image.h"

namespace saccade {

// Throws InputError where it is no such JSON.
ImageAnnotation read_labelme_json(const std::string& path);
// By its first bytes.
bool is_labelme_json(const std::string& path);
// Whether the folder, or one in it, has such files.
bool holds_labelme_json(const std::string& folder);
// It has, and no XML files that would be another set.
bool is_labelme_folder(const std::string& folder);

}  // namespace saccade
