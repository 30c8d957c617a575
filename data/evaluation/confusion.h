// Which classes are taken for which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade {

struct ConfusionMatrix {
  std::vector<std::string> names;  // [K], by ascending category id
  // Row: the true class, column: the predicted one. Of detectors [K + 1, K + 1]: the last row holds
  // detections that are no object, the last column objects that are not found. Of classifiers [K, K].
  std::vector<std::vector<int64_t>> counts;
};

// What became of the objects and detections of an image.
struct ImageOutcome {
  int64_t image_id = 0;
  int64_t right = 0, confused = 0, missed = 0, invented = 0;  // confused: found, but as another class
  double f1() const {
    const int64_t objects = right + confused + missed, found = right + confused + invented;
    return objects + found == 0 ? 1 : 2 * static_cast<double>(right) / static_cast<double>(objects + found);
  }
  int64_t errors() const { return confused + missed + invented; }
};

// Detections with at least the score `threshold` are paired with objects of any class: the pair of the
// largest overlap first (of equal ones that of the larger score, then the first in the lists), down to an IoU
// of min_iou; everything is in one pair at most. Crowds are no objects, and detections without a pair that
// are in one by half do not count. `images`: in the order of truth.images.
ConfusionMatrix confusion_matrix(const GroundTruth& truth, std::span<const Detection> detections,
                                 double threshold, double min_iou = 0.5,
                                 std::vector<ImageOutcome>* images = nullptr, IouType iou = IouType::kBoxes);

}  // namespace saccade
