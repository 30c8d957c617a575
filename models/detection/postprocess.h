// From the predictions of the last decoder layer to the detections of each image.
#pragma once

#include <vector>

#include "models/detection/class_loss.h"
#include "models/detection/set_output.h"

namespace saccade {

// Whether it overlaps one of them, of its class, by more than the threshold (IoU); never with a threshold of 1.
bool doubles_another(const ImageDetection& detection, const std::vector<ImageDetection>& better, double nms);

// As Detector::postprocess; the class loss says how scores follow from logits. Equal scores go by query, then class.
std::vector<std::vector<ImageDetection>> postprocess(const SetOutput& output,
                                                     const std::vector<Target>& targets,
                                                     const PostprocessOptions& options,
                                                     const ClassLoss& class_loss);

}  // namespace saccade
