#pragma once

#include "data/formats/dataset.h"
#include "train/report/evaluation_sections.h"
#include "train/tasks/detection/figures.h"

namespace saccade {

// The images on which a detector does best and worst, truth beside predictions,
// and where it looked for some of them.
void add_detection_pictures(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                            const DetectionFigures& figures, const ReportOptions& options);

}  // namespace saccade
