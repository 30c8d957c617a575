// The quality of detections: all metrics of a run's report.
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
  std::optional<CocoMetrics> masks;  // besides those of boxes, from which everything else is computed
  DetectionCurves at_50, at_75;      // at IoU 0.5 and 0.75
  double threshold = 0;              // the lowest score that counts below; by default that of at_50.best
  ConfusionMatrix confusion;         // at IoU 0.5
  std::vector<ImageOutcome> images;  // likewise, in the order of the ground truth
};
// `source` names the detections in errors, which evaluate_coco throws.
DetectionMetrics detection_metrics(const GroundTruth& truth, std::span<const Detection> detections,
                                   std::optional<double> threshold, const std::string& source,
                                   const MetricOptions& options = {});

// Returns an object {"coco", "threshold", "best", "confusion_matrix": {"names", "counts"}, "classes"} at full
// precision; each class has its curves at IoU 0.5 and 0.75.
std::string metrics_json(const DetectionMetrics& metrics);

}  // namespace saccade
