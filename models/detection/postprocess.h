// From the predictions of the last decoder layer to the detections of each image.
#pragma once

#include <vector>

#include "models/detection/class_loss.h"
#include "models/detection/set_output.h"

namespace saccade {

// Whether it overlaps one of them, of its class, by more than the threshold (IoU);
// never with a threshold of 1.
bool doubles_another(const ImageDetection& detection, const std::vector<ImageDetection>& better, double nms);

// As Detector::start_postprocess; the class loss, which must outlive what is returned, says how scores follow
// from logits. Equal scores go by query, then class. A GPU ranks sigmoids' logits itself; in any case one
// copy takes the numbers to the host, and one more the masks.
std::function<BatchDetections()> start_postprocess(const SetOutput& output, std::vector<Target> targets,
                                                   const PostprocessOptions& options,
                                                   const ClassLoss& class_loss);
BatchDetections postprocess(const SetOutput& output, const std::vector<Target>& targets,
                            const PostprocessOptions& options, const ClassLoss& class_loss);

}  // namespace saccade
