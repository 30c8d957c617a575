// Precision and recall of each class as functions of the score, and the best score threshold for accepting
// detections.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade {

// The detections with at least this score.
struct OperatingPoint {
  double threshold = -1, f1 = -1, precision = -1, recall = -1;  // -1 if there are no detections or no objects
};

struct ClassCurve {
  int64_t category_id = 0;
  std::string name;
  int64_t objects = 0;  // without crowds
  // A point for each occurring score, descending, for the detections with at least this score. As in
  // scikit-learn's precision_recall_curve, but recall is relative to all objects.
  std::vector<double> scores, precision, recall;
  // pycocotools' precision at the recalls 0, 0.01, ..., 1: the largest at this recall or beyond, 0 if there
  // is none; empty without objects.
  std::vector<double> at_recall;
  OperatingPoint best;  // by F1; ties go to the largest score
};

struct DetectionCurves {
  std::vector<ClassCurve> classes;  // by ascending category id
  // With one threshold for all classes, over the objects of all classes.
  std::vector<double> scores, precision, recall;
  OperatingPoint best;
};

// Computes the curves at one of COCO's IoU thresholds (0: 0.5, 5: 0.75). Detections match objects as in
// evaluate_coco for all areas; the same errors are thrown.
DetectionCurves detection_curves(const GroundTruth& truth, std::span<const Detection> detections,
                                 int iou_index, const std::string& source = "detections",
                                 const MetricOptions& options = {});

}  // namespace saccade
