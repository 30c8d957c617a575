// Random erasing (Zhong et al., 2020) with timm's ranges, attempts and noise: a rectangle of 2 % to a third
// of the image is filled with normal noise with the mean and deviation that images are normalised with,
// clipped to bytes. Objects stay.
#include <algorithm>
#include <cmath>

#include "data/augment/augment.h"

namespace saccade {
namespace {

PixelFunction make_erasing(const AugmentFields& fields) {
  return [mean = fields.mean, std = fields.std](Image& image, Rng& rng) {
    const double area = static_cast<double>(image.height * image.width), limit = std::log(0.3);
    for (int attempt = 0; attempt < 10; ++attempt) {
      double target = area * rng.uniform(0.02, 1.0 / 3);
      double ratio = std::exp(rng.uniform(limit, -limit));
      auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
      auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
      if (height >= image.height || width >= image.width) continue;
      int64_t top = pick_between(rng, 0, image.height - height),
              left = pick_between(rng, 0, image.width - width);
      for (int64_t y = top; y < top + height; ++y) {
        uint8_t* p = image.row(y) + left * 3;
        for (size_t i = 0; i < static_cast<size_t>(width * 3); ++i) {
          double value = 255 * (mean[i % 3] + std[i % 3] * rng.normal());
          p[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
        }
      }
      return;
    }
  };
}

[[maybe_unused]] const bool erasing_registered = augmentations().add({.name = "random_erasing",
                                                                      .order = 60,
                                                                      .probability = "erase_probability",
                                                                      .make_of_pixels = &make_erasing});

}  // namespace
}  // namespace saccade
