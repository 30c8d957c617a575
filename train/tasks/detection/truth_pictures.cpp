#include "train/tasks/detection/truth_pictures.h"

#include <algorithm>

#include "data/pages/picture.h"
#include "train/inference/evaluation_data.h"

namespace saccade {

DetectionPictures::DetectionPictures(const Dataset& dataset, const std::vector<Detection>& detections,
                                     double threshold)
    : dataset_(dataset) {
  const std::vector<int64_t>& ids = dataset.category_ids();
  auto add = [&](auto& list, int64_t image, int64_t category, const std::array<double, 4>& b, double score) {
    const auto at = std::lower_bound(ids.begin(), ids.end(), category);
    if (at == ids.end() || *at != category) return;
    list[image].push_back({.label = at - ids.begin(), .box = box_of_corner(b), .score = score});
  };
  for (const Annotation& a : dataset.ground_truth().annotations)
    add(truth_, a.image_id, a.category_id, a.bbox, -1);
  for (const Detection& d : detections)
    if (d.score >= threshold) add(found_, d.image_id, d.category_id, d.bbox, d.score);
}

std::optional<Image> DetectionPictures::truth_beside_found(int64_t index, int64_t side) const {
  const std::optional<Image> image = open_picture(dataset_, index);
  if (!image) return std::nullopt;
  auto drawn = [&](const auto& lists) {
    const auto it = lists.find(dataset_.image_id(index));
    return small_picture(*image, it == lists.end() ? std::vector<Instance>() : it->second,
                         dataset_.class_names(), side);
  };
  return side_by_side(drawn(truth_), drawn(found_));
}

}  // namespace saccade
