// What a detector found on the images of a data set, drawn beside what is there.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/dataset.h"
#include "data/images/draw.h"

namespace saccade {

class DetectionPictures {
 public:
  // Of the detections those with at least this score. `dataset` must outlive this.
  DetectionPictures(const Dataset& dataset, const std::vector<Detection>& detections, double threshold);
  // The truth left, the detections right, each within so many pixels a side;
  // nothing where the image cannot be read.
  std::optional<Image> truth_beside_found(int64_t index, int64_t side) const;

 private:
  const Dataset& dataset_;
  std::map<int64_t, std::vector<Instance>> truth_, found_;  // by image id
};

}  // namespace saccade
