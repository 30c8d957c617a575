// COCO detection evaluation, equal to pycocotools' COCOeval (cocodataset/cocoapi,
// PythonAPI/pycocotools/cocoeval.py, iouType "bbox", default parameters except for MetricOptions) for the
// same input order: equal scores keep the file order within an image and the ascending order of image ids
// between images. Results do not depend on the thread count.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types/metrics.h"
#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade {

inline constexpr int kCocoThresholds = 10;  // IoU 0.50, 0.55, ..., 0.95

// -1 stands for "no object of this kind", as in pycocotools.
struct CocoAverages {
  double AP = -1, AP50 = -1, AP75 = -1, AR_1 = -1, AR_10 = -1, AR_100 = -1;
  std::vector<double> AP_of_areas, AR_of_areas;  // of CocoMetrics::areas
};
struct CocoClassMetrics : CocoAverages {
  int64_t category_id = 0;
  std::string name;
  int64_t objects = 0;  // without crowds
};
struct CocoMetrics : CocoAverages {
  std::array<double, kCocoThresholds> AP_by_iou{};
  std::vector<CocoClassMetrics> classes;     // ascending category id
  std::vector<std::string> notes;            // messages for the user, one line each
  std::vector<std::string> areas;            // names of the area ranges: small, medium and large, or others
  int64_t max_detections = kCocoDetections;  // the limit for AP and AR_100; the latter is then called AR_N
};

// Only annotations and detections of the images of `truth` count; annotations are used in their order,
// including crowds. Throws InputError if a detection names an image that is not in the ground truth or
// contains a NaN (naming `source` and the entry, counted from 1). Detections of unknown categories are left
// out, with a note.
CocoMetrics evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                          const std::string& source = "detections", const MetricOptions& options = {});

// Returns the COCO metrics by name, "AP" first: twelve, but another number for other area ranges.
Metrics named_metrics(const CocoMetrics& metrics);
// The same with what they measure, in pycocotools' words.
struct CocoMetric {
  std::string name;
  const char *kind, *iou;
  std::string area;
  int64_t max_detections;
  double value;
};
std::vector<CocoMetric> coco_metric_rows(const CocoMetrics& metrics);
// Returns the lines that pycocotools prints, in its order and wording.
std::string coco_table(const CocoMetrics& metrics);
// Returns a table with a line for each category.
std::string coco_class_table(const CocoMetrics& metrics);
// {"AP": ..., "AP50": ..., ..., "AR_large": ...} at full precision; with_classes adds "AP_by_iou" and
// "per_class", a list of the categories' metrics. `masks`: metrics of masks, with keys beginning "segm_".
std::string coco_json(const CocoMetrics& metrics, bool with_classes = false,
                      const CocoMetrics* masks = nullptr);

}  // namespace saccade
