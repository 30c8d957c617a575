#include "models/pyramid/anchor_targets.h"

#include <algorithm>

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

namespace {

// Assigns objects to the boxes that lie within the image; the others are ignored.
std::vector<int32_t> assign_inside(const std::vector<float>& boxes, const std::vector<float>& objects,
                                   const Target& target, const MaxIouOptions& options) {
  const auto width = static_cast<float>(target.width), height = static_cast<float>(target.height);
  std::vector<float> inside;
  std::vector<size_t> places;
  for (size_t i = 0; i < boxes.size() / 4; ++i) {
    const float* b = boxes.data() + 4 * i;
    if (!(b[0] >= 0 && b[1] >= 0 && b[2] < width && b[3] < height)) continue;
    inside.insert(inside.end(), b, b + 4);
    places.push_back(i);
  }
  const std::vector<int32_t> own = assign_max_iou(inside, objects, options);
  std::vector<int32_t> stands(boxes.size() / 4, kIgnored);
  for (size_t i = 0; i < places.size(); ++i) stands[places[i]] = own[i];
  return stands;
}

}  // namespace

AnchorTargets::AnchorTargets(const Anchors& anchors, const Target& target, const MaxIouOptions& options,
                             bool inside)
    : size{target.height, target.width}, maps(anchors.maps(size)), objects(corners_of_objects(target)) {
  const std::vector<float> boxes = anchors.boxes(size);
  stands = inside ? assign_inside(boxes, objects, target, options) : assign_max_iou(boxes, objects, options);
}

int64_t AnchorTargets::positives() const {
  return std::ranges::count_if(stands, [](int32_t object) { return object >= 0; });
}

KeptAnchorTargets::Pointer KeptAnchorTargets::find(const Target& target, bool is_taken) {
  const ImageSize size{target.height, target.width};
  const std::vector<float> corners = corners_of_objects(target);
  return kept_.find([&](const AnchorTargets& t) { return t.size == size && t.objects == corners; }, is_taken);
}

KeptAnchorTargets::Pointer KeptAnchorTargets::keep(const Anchors& anchors, const Target& target,
                                                   const MaxIouOptions& options) {
  if (Pointer known = find(target, false)) return known;
  auto made = std::make_shared<const AnchorTargets>(anchors, target, options);
  kept_.keep(made);
  return made;
}

KeptAnchorTargets::Pointer KeptAnchorTargets::take(const Anchors& anchors, const Target& target,
                                                   const MaxIouOptions& options) {
  if (Pointer known = find(target, true)) return known;
  return std::make_shared<const AnchorTargets>(anchors, target, options);
}

}  // namespace saccade
