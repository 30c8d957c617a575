// RandomZoomOut of torchvision (SSD's expansion; Liu et al., 2016): places the image at random on a black
// canvas whose sides are up to four times as long.
#include <algorithm>
#include <cmath>

#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

void zoom_out(Sample& sample, Rng& rng) {
  if (sample.is_mosaic) return;
  const auto height = static_cast<double>(sample.image.height),
             width = static_cast<double>(sample.image.width);
  const double most = std::sqrt(static_cast<double>(kMaxImagePixels) / (height * width));
  const double ratio = std::clamp(rng.uniform(1, 4), 1.0, std::max(most, 1.0));
  const auto tall = static_cast<int64_t>(height * ratio), wide = static_cast<int64_t>(width * ratio);
  auto place = [&](int64_t room) { return static_cast<int64_t>(static_cast<double>(room) * rng.uniform()); };
  const int64_t x = place(wide - sample.image.width), y = place(tall - sample.image.height);
  place_on_canvas(sample, tall, wide, y, x, kBlack);
}

[[maybe_unused]] const bool zoom_out_registered =
    augmentations().add({.name = "zoom_out",
                         .order = -20,
                         .phase = AugmentPhase::kStrong,
                         .probability = "zoom_out",
                         .make = [](const AugmentFields&) -> AugmentFunction { return zoom_out; }});

}  // namespace
}  // namespace saccade
