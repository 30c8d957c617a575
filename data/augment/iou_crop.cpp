// RandomIoUCrop of torchvision (SSD's patches; Liu et al., 2016): a window that overlaps some object by a drawn minimum. Objects
// with their centre inside are kept, cut to it.
#include <algorithm>
#include <vector>

#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

struct Window {
  int64_t y = 0, x = 0, height = 0, width = 0;

  bool has_centre(const Instance& i) const {
    const double cx = 0.5 * (i.box.x1 + i.box.x2), cy = 0.5 * (i.box.y1 + i.box.y2);
    return cx > static_cast<double>(x) && cx < static_cast<double>(x + width) &&
           cy > static_cast<double>(y) && cy < static_cast<double>(y + height);
  }
  Box box() const {
    return {static_cast<double>(x), static_cast<double>(y), static_cast<double>(x + width),
            static_cast<double>(y + height)};
  }
};

void iou_crop(Sample& sample, Rng& rng) {
  // 1: the image stays as it is, which is also what becomes of one that no window fits.
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
      Window window;
      window.width = part(width, rng.uniform(0.3, 1));
      window.height = part(height, rng.uniform(0.3, 1));
      if (window.width < 1 || window.width > 2 * window.height || window.height > 2 * window.width) continue;
      window.x = part(width - window.width, rng.uniform());
      window.y = part(height - window.height, rng.uniform());
      const bool overlaps = std::ranges::any_of(sample.instances, [&](const Instance& i) {
        return window.has_centre(i) && iou(i.box, window.box()) >= minimum;
      });
      if (!overlaps) continue;
      std::erase_if(sample.instances, [&](const Instance& i) { return !window.has_centre(i); });
      return crop(sample, window.y, window.x, window.height, window.width);
    }
  }
}

[[maybe_unused]] const bool iou_crop_registered =
    augmentations().add({.name = "iou_crop",
                         .order = -10,
                         .phase = AugmentPhase::kStrong,
                         .probability = "iou_crop",
                         .file = __FILE__,
                         .make = [](const AugmentFields&) -> AugmentFunction { return iou_crop; }});

}  // namespace
}  // namespace saccade
