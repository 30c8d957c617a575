// One annotation file of LabelMe.
#pragma once

#include <string>

#include "data/formats/per_image.h"

namespace saccade {

// Throws InputError if it is no such JSON.
ImageAnnotation read_labelme_json(const std::string& path);
// Recognises it by its first bytes.
bool is_labelme_json(const std::string& path);
// Returns whether the folder, or one in it, has such files.
bool holds_labelme_json(const std::string& folder);
// Returns whether it has some, but no XML files, which would be another set.
bool is_labelme_folder(const std::string& folder);

}  // namespace saccade
