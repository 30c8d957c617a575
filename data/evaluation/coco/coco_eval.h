// COCO detection evaluation of boxes, equal to pycocotools' COCOeval (cocodataset/cocoapi,
// PythonAPI/pycocotools/cocoeval.py, iouType "bbox", default parameters but for MetricOptions) for the same
// input order: ties of the score keep the file order within an image and the ascending order of image ids
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
  int64_t objects = 0;  // crowds not counted
};
struct CocoMetrics : CocoAverages {
  std::array<double, kCocoThresholds> AP_by_iou{};
  std::vector<CocoClassMetrics> classes;     // ascending category id
  std::vector<std::string> notes;            // what the user should know, one line each
  std::vector<std::string> areas;            // names of the area ranges: small, medium and large, or others
  int64_t max_detections = kCocoDetections;  // of which AP and AR_100 are; the latter is called AR_N then
};

// Only annotations and detections of the images of `truth` count; annotations are taken in their order,
// crowds included. Throws InputError when a detection names an image that is not in the ground truth or has a
// NaN (naming `source` and the entry, counted from 1). Detections of unknown categories are left out,
// with a note.
CocoMetrics evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                          const std::string& source = "detections", const MetricOptions& options = {});

// The COCO metrics by name, "AP" first: twelve, with other area ranges more or fewer.
Metrics named_metrics(const CocoMetrics& metrics);
// The same with what they are of, in pycocotools' words.
struct CocoMetric {
  std::string name;
  const char *kind, *iou;
  std::string area;
  int64_t max_detections;
  double value;
};
std::vector<CocoMetric> coco_metric_rows(const CocoMetrics& metrics);
// The lines that pycocotools prints, in its order and wording.
std::string coco_table(const CocoMetrics& metrics);
// A table with a line for each category.
std::string coco_class_table(const CocoMetrics& metrics);
// {"AP": ..., "AP50": ..., ..., "AR_large": ...} at full precision; with_classes adds "AP_by_iou" and
// "per_class", a list of the categories' metrics. `masks`: those of masks, whose keys begin with "segm_".
std::string coco_json(const CocoMetrics& metrics, bool with_classes = false,
                      const CocoMetrics* masks = nullptr);

}  // namespace saccade
