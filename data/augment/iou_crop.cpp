// RandomIoUCrop of torchvision (SSD's patches; Liu et al., 2016): crops a window that overlaps some object by
// a randomly drawn minimum. Objects with their centre inside are kept and clipped to it.
#include <algorithm>
#include <functional>

#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

bool has_centre(const Box& window, const Instance& i) {
  const double cx = 0.5 * (i.box.x1 + i.box.x2), cy = 0.5 * (i.box.y1 + i.box.y2);
  return cx > window.x1 && cx < window.x2 && cy > window.y1 && cy < window.y2;
}

void iou_crop(Sample& sample, Rng& rng) {
  // 1 leaves the image unchanged, which is also the outcome for an image that no window fits.
  constexpr double kMinimums[] = {0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};
  if (sample.is_mosaic || sample.instances.empty()) return;
  const int64_t height = sample.image.height, width = sample.image.width;
  auto part = [&](int64_t size, double share) {
    return static_cast<int64_t>(static_cast<double>(size) * share);
  };
  for (;;) {
    const double minimum = kMinimums[rng.below(std::ssize(kMinimums))];
    if (minimum == 1) return;
    for (int trial = 0; trial < 40; ++trial) {
      const int64_t w = part(width, rng.uniform(0.3, 1)), h = part(height, rng.uniform(0.3, 1));
      if (w < 1 || w > 2 * h || h > 2 * w) continue;
      const int64_t x = part(width - w, rng.uniform()), y = part(height - h, rng.uniform());
      const Box window{static_cast<double>(x), static_cast<double>(y), static_cast<double>(x + w),
                       static_cast<double>(y + h)};
      auto is_inside = [&](const Instance& i) { return has_centre(window, i); };
      auto overlaps = [&](const Instance& i) { return is_inside(i) && iou(i.box, window) >= minimum; };
      if (std::ranges::none_of(sample.instances, overlaps)) continue;
      std::erase_if(sample.instances, std::not_fn(is_inside));
      return crop(sample, y, x, h, w);
    }
  }
}

[[maybe_unused]] const bool iou_crop_registered =
    augmentations().add({.name = "iou_crop",
                         .order = -10,
                         .phase = AugmentPhase::kStrong,
                         .probability = "iou_crop",
                         .make = [](const AugmentFields&) -> AugmentFunction { return iou_crop; }});

}  // namespace
}  // namespace saccade
