// Named numbers of a run or an evaluation, in the order in which they are shown and logged.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace saccade {

using Metrics = std::vector<std::pair<std::string, double>>;

}  // namespace saccade
