// One annotation file of Pascal VOC.
#pragma once

#include "data/formats/per_image.h"

namespace saccade {

// Throws InputError where it is no XML or has a DOCTYPE.
ImageAnnotation read_voc_xml(const std::string& path);
// By its first bytes.
bool is_voc_xml(const std::string& path);

}  // namespace saccade
