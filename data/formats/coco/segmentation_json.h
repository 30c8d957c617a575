// Masks in COCO's files: polygons [[x, y, x, y, ...], ...], or runs {"size": [height, width], "counts": ...}
// whose counts are a list or compressed text.
#pragma once

#include <memory>
#include <string>

#include "core/formats/json.h"
#include "core/types/segmentation.h"

namespace saccade {

// Returns null for null and [], and for an invalid value, with an error text ("mask: ...") in `fault`. For
// polygons it only checks that they are numbers: Segmentation::check() does the rest.
std::shared_ptr<const Segmentation> read_segmentation(JsonFile& json, JsonValue value, std::string& fault);

// Writes it as such a value; runs are written as text. The numbers read back to the bit.
std::string segmentation_json(const Segmentation& segmentation);

}  // namespace saccade
