// Detections as bytes, for processes of the same program that train together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/evaluation/detections.h"

namespace saccade {

// Every number comes back with its bits, masks with their runs. What two calls give, one behind the other,
// is both lists.
std::string to_bytes(std::span<const Detection> detections);
std::vector<Detection> detections_of(std::string_view bytes);

}  // namespace saccade
