// One annotation file of Pascal VOC.
#pragma once

#include "data/formats/per_image.h"

namespace saccade {

// Throws InputError if it is no XML or has a DOCTYPE.
ImageAnnotation read_voc_xml(const std::string& path);
// Recognises it by its first bytes.
bool is_voc_xml(const std::string& path);

}  // namespace saccade
