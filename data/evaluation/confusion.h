// Which classes are confused with which.
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
  // Row: the true class, column: the predicted one. For detectors [K + 1, K + 1]: the last row counts
  // detections that match no object, the last column objects that were not found. For classifiers [K, K].
  std::vector<std::vector<int64_t>> counts;
};

// The outcome of the objects and detections of an image.
struct ImageOutcome {
  int64_t image_id = 0;
  int64_t right = 0, confused = 0, missed = 0, invented = 0;  // confused: found, but as another class
  double f1() const {
    const int64_t objects = right + confused + missed, found = right + confused + invented;
    return objects + found == 0 ? 1 : 2 * static_cast<double>(right) / static_cast<double>(objects + found);
  }
  int64_t errors() const { return confused + missed + invented; }
};

// Pairs detections whose score is at least `threshold` with objects of any class: the pair with the largest
// overlap first (ties: the larger score, then the first in the lists), down to an IoU of min_iou; each is in
// one pair at most. Crowds are no objects, and unpaired detections that lie at least half in one do not
// count. `images`: in the order of truth.images.
ConfusionMatrix confusion_matrix(const GroundTruth& truth, std::span<const Detection> detections,
                                 double threshold, double min_iou = 0.5,
                                 std::vector<ImageOutcome>* images = nullptr, IouType iou = IouType::kBoxes);

}  // namespace saccade
