// The categories of COCO.
#pragma once

#include <string>
#include <vector>

namespace saccade {

// By category id, 0 to 90; kNoCategory at the ids that COCO does not use.
const std::vector<std::string>& coco_class_names();

}  // namespace saccade
