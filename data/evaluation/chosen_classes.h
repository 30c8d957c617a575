// Figures of some classes only.
#pragma once

#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/ground_truth.h"

namespace saccade {

// Leaves the categories of these names, their boxes and the detections of them; all images stay, as with
// pycocotools' catIds. Returns what was left out, a line each, without the file's name. The truth has these
// names (check_choice). Does nothing where there are none.
std::vector<std::string> keep_classes(const std::vector<std::string>& names, GroundTruth& truth,
                                      std::vector<Detection>& detections);

}  // namespace saccade
