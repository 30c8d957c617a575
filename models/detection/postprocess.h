// Turns the predictions of the last decoder layer into the detections of each image.
#pragma once

#include <vector>

#include "models/detection/class_loss.h"
#include "models/detection/set_output.h"

namespace saccade {

// Returns whether the detection overlaps one of `better` of its class by more than the threshold (IoU);
// always false for a threshold of 1.
bool doubles_another(const ImageDetection& detection, const std::vector<ImageDetection>& better, double nms);

// As Detector::start_postprocess. The class loss, which must outlive the returned function, defines the
// scores of logits. Equal scores are ordered by query, then class. A GPU ranks the logits of sigmoids itself;
// in any case one copy brings the numbers to the host, and another one the masks.
std::function<BatchDetections()> start_postprocess(const SetOutput& output,
                                                   const std::vector<Target>& targets,
                                                   const PostprocessOptions& options,
                                                   const ClassLoss& class_loss);
BatchDetections postprocess(const SetOutput& output, const std::vector<Target>& targets,
                            const PostprocessOptions& options, const ClassLoss& class_loss);

}  // namespace saccade
