// COCO instances files (https://cocodataset.org/#format-data).
#pragma once

#include <string>

#include "data/formats/ground_truth.h"

namespace saccade {

// Reads the file; everything in its order. A record with a missing or mistyped field is reported and left out, all
// others are kept. Throws InputError when the file cannot be read, is not JSON, or lacks one of the three lists.
GroundTruth read_coco(const std::string& path, const ProblemReport& report);

}  // namespace saccade
