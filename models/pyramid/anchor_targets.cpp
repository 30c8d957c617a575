#include "models/pyramid/anchor_targets.h"

#include <algorithm>

#include "core/runtime/parallel.h"

namespace saccade {

std::vector<float> corners_of_objects(const Target& target) {
  const double x = static_cast<double>(target.width) / static_cast<double>(target.frame.width),
               y = static_cast<double>(target.height) / static_cast<double>(target.frame.height);
  std::vector<float> corners;
  for (const Instance& instance : target.instances) {
    const Box box = scaled(instance.box, x, y);
    for (double corner : {box.x1, box.y1, box.x2, box.y2}) corners.push_back(static_cast<float>(corner));
  }
  return corners;
}

AnchorTargets::AnchorTargets(const Anchors& anchors, const Target& target, const MaxIouOptions& options)
    : maps(anchors.maps({target.height, target.width})),
      boxes(anchors.boxes({target.height, target.width})),
      objects(corners_of_objects(target)) {
  stands = assign_max_iou(boxes, objects, options);
}

int64_t AnchorTargets::positives() const {
  return std::ranges::count_if(stands, [](int32_t object) { return object >= 0; });
}

std::vector<AnchorTargets> anchor_targets(const Anchors& anchors, const std::vector<Target>& targets,
                                          const MaxIouOptions& options) {
  std::vector<AnchorTargets> all(targets.size());
  parallel_for(std::ssize(targets), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      all[static_cast<size_t>(n)] = AnchorTargets(anchors, targets[static_cast<size_t>(n)], options);
  });
  return all;
}

}  // namespace saccade
