// Masks in COCO's files: polygons [[x, y, x, y, ...], ...], or runs {"size": [height, width], "counts": ...}
// whose counts are a list or their compressed text.
#pragma once

#include <memory>
#include <string>

#include "core/formats/json.h"
#include "core/types/segmentation.h"

namespace saccade {

// Null for null, [] and, with what is wrong ("mask: ...") as `fault`, for what is none of these. Polygons are
// only made sure to be numbers: Segmentation::check() tells the rest.
std::shared_ptr<const Segmentation> read_segmentation(JsonFile& json, JsonValue value, std::string& fault);

// As such a value; runs are written as text. The numbers come back to the bit.
std::string segmentation_json(const Segmentation& segmentation);

}  // namespace saccade
