// From the predictions of the last decoder layer to the detections of each image.
#pragma once

#include <vector>

#include "models/detection/class_loss.h"
#include "models/detection/set_output.h"

namespace saccade {

// As Detector::postprocess; the class loss says how scores follow from logits. Equal scores go by query, then class.
std::vector<std::vector<ImageDetection>> postprocess(const SetOutput& output,
                                                     const std::vector<Target>& targets,
                                                     const PostprocessOptions& options,
                                                     const ClassLoss& class_loss);

}  // namespace saccade
