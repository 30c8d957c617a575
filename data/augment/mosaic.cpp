// The mosaic of DEIM (Huang et al., 2025), which makes one-to-one matching dense: the image and three random
// others fill the quarters of a canvas and are rotated, moved and scaled together.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/tensor/error.h"
#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

// For the resized images; the largest value that keeps every canvas a valid image.
constexpr int64_t kLongestSide = 6688;
static_assert(4 * kLongestSide * kLongestSide <= kMaxImagePixels);

// Resizes the short side of each to `side` and puts each at the top left of a cell as large as the largest of
// them.
void join_four(Sample& sample, int64_t side, Filter filter, Rng& rng, const AnotherSample& another) {
  SACCADE_CHECK(another != nullptr, "[mosaic] there are no other images here");
  std::vector<Sample> parts{std::move(sample)};
  while (parts.size() < 4) parts.push_back(another(rng));
  int64_t height = 0, width = 0;
  for (Sample& part : parts) {
    ImageSize size = detr_size(part.image.height, part.image.width, side, kLongestSide);
    // The long side of an image one pixel wide may still exceed the limit.
    size = {std::min(size.height, kLongestSide), std::min(size.width, kLongestSide)};
    resize(part, size.height, size.width, filter);
    height = std::max(height, size.height);
    width = std::max(width, size.width);
  }
  sample = std::move(parts[0]);
  place_on_canvas(sample, 2 * height, 2 * width, 0, 0, kBlack);
  for (size_t i = 1; i < parts.size(); ++i)
    paste(parts[i],
          {.size = {2 * height, 2 * width},
           .x = static_cast<double>(i % 2 == 1 ? width : 0),
           .y = static_cast<double>(i / 2 == 1 ? height : 0)},
          sample);
  sample.is_mosaic = true;
}

AffineChange draw_affine(const Image& image, Rng& rng) {
  AffineChange change;
  change.degrees = rng.uniform(-10, 10);
  change.x = std::nearbyint(0.1 * static_cast<double>(image.width) * rng.uniform(-1, 1));
  change.y = std::nearbyint(0.1 * static_cast<double>(image.height) * rng.uniform(-1, 1));
  change.scale = rng.uniform(0.5, 1.5);
  return change;
}

CombineFunction make_mosaic(const AugmentFields& fields) {
  const int64_t side = fields.integer("mosaic_side");
  SACCADE_CHECK(side >= 1 && side <= kLongestSide, "[augment] mosaic_side must be 1 to {} pixels",
                kLongestSide);
  return [side, filter = fields.filter, min_area_ratio = fields.number("min_area_ratio")](
             Sample& sample, Rng& rng, const AnotherSample& another) {
    join_four(sample, side, filter, rng, another);
    move_affine(sample, draw_affine(sample.image, rng), min_area_ratio);
  };
}

[[maybe_unused]] const bool mosaic_registered = augmentations().add({.name = "mosaic",
                                                                     .order = -40,
                                                                     .phase = AugmentPhase::kCombining,
                                                                     .probability = "mosaic",
                                                                     .make_of_several = &make_mosaic});

}  // namespace
}  // namespace saccade
