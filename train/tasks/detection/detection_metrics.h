// How good detections are: all metrics of the report of a run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/evaluation/coco/coco_eval.h"
#include "data/evaluation/confusion.h"
#include "data/evaluation/detection_curves.h"

namespace saccade {

struct DetectionMetrics {
  CocoMetrics coco;
  std::optional<CocoMetrics> masks;  // besides those of boxes, from which all else is
  DetectionCurves at_50, at_75;      // IoU
  double threshold = 0;              // the smallest score that counts below; by default at_50.best's
  ConfusionMatrix confusion;         // IoU 0.5
  std::vector<ImageOutcome> images;  // likewise, in the order of the ground truth
};
// `source` names the detections in errors, which evaluate_coco throws.
DetectionMetrics detection_metrics(const GroundTruth& truth, std::span<const Detection> detections,
                                   std::optional<double> threshold, const std::string& source,
                                   const MetricOptions& options = {});

// An object {"coco", "threshold", "best", "confusion_matrix": {"names", "counts"}, "classes"} at full
// precision; each class with its curves at IoU 0.5 and 0.75.
std::string metrics_json(const DetectionMetrics& metrics);

}  // namespace saccade
