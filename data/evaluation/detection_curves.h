// Precision and recall of each class over the score, and the score from which on detections are best taken
// for true.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade {

// Detections with at least this score.
struct OperatingPoint {
  double threshold = -1, f1 = -1, precision = -1, recall = -1;  // -1: there are no detections or no objects
};

struct ClassCurve {
  int64_t category_id = 0;
  std::string name;
  int64_t objects = 0;  // crowds not counted
  // A point for each score that occurs, falling: of the detections with at least this score. As
  // scikit-learn's precision_recall_curve, but that recall is of all objects.
  std::vector<double> scores, precision, recall;
  // pycocotools' precision at the recalls 0, 0.01, ..., 1: the largest at this recall or beyond, 0 where none
  // is; empty without objects.
  std::vector<double> at_recall;
  OperatingPoint best;  // by F1; of equal ones that of the largest score
};

struct DetectionCurves {
  std::vector<ClassCurve> classes;  // by ascending category id
  // With one threshold for all classes, over the objects of all.
  std::vector<double> scores, precision, recall;
  OperatingPoint best;
};

// At one of COCO's IoU thresholds (0: 0.5, 5: 0.75). Detections hit objects as in evaluate_coco, of all
// areas, which throws the same errors.
DetectionCurves detection_curves(const GroundTruth& truth, std::span<const Detection> detections,
                                 int iou_index, const std::string& source = "detections",
                                 const MetricOptions& options = {});

}  // namespace saccade
