#include "train/inference/largest_batch.h"

#include <algorithm>
#include <cmath>

#include "core/tensor/integers.h"
#include "core/tensor/philox.h"
#include "data/augment/transforms.h"
#include "train/config/options.h"

namespace saccade {
namespace {

// Whether images may have other sides than their files, or swapped ones.
bool changes_shapes(const config::Augment& augment) {
  return augment.crop_probability() > 0 || augment.rotate90() > 0 || augment.mosaic() > 0 ||
         augment.zoom_out() > 0 || augment.iou_crop() > 0;
}

// The short side is fixed: portrait and landscape images make a batch as high as the former and as wide as
// the latter.
ImageSize largest_of_short_side(int64_t short_side, int64_t longest, bool shapes_change, int batch_size,
                                std::span<const ImageSize> images) {
  const int64_t side = std::min(short_side, longest);
  const bool known =
      std::ranges::all_of(images, [](const ImageSize& i) { return i.height > 0 && i.width > 0; });
  if (known && !images.empty() && !shapes_change) {
    ImageSize largest;
    for (const ImageSize& image : images) {
      const ImageSize size = detr_size(image.height, image.width, side, longest);
      largest = {std::max(largest.height, size.height), std::max(largest.width, size.width)};
    }
    return largest;
  }
  return {batch_size == 1 ? side : longest, longest};
}

ImageSize largest_of_fixed(const config::Augment& augment) {
  ImageSize largest{augment.height(), augment.width()};
  for (int64_t height : augment.multi_scale_heights()) {
    if (height <= largest.height) continue;
    const double ratio = static_cast<double>(augment.width()) / static_cast<double>(augment.height());
    largest = {height, std::max<int64_t>(1, std::llround(ratio * static_cast<double>(height)))};
  }
  return largest;
}

ImageSize largest_of_training(const Config& config, std::span<const ImageSize> images) {
  const config::Data& data = config.data();
  if (data.augment().height() > 0) return largest_of_fixed(data.augment());
  const AugmentFields fields = augment_fields(config);
  const std::vector<int64_t> sides = fields.integers("short_sides");
  return largest_of_short_side(*std::max_element(sides.begin(), sides.end()), fields.integer("long_side"),
                               changes_shapes(data.augment()), data.batch_size(), images);
}

// The images as at evaluation.
ImageSize largest_of_overfit(const Config& config, std::span<const ImageSize> images) {
  const ImageSize size = eval_size(config);
  const config::Data& data = config.data();
  return data.val_height() > 0
             ? size
             : largest_of_short_side(size.height, size.width, false, data.batch_size(), images);
}

}  // namespace

ImageSize largest_batch_size(const Config& config, std::span<const ImageSize> images) {
  const config::Data& data = config.data();
  const ImageSize size =
      data.overfit() > 0 ? largest_of_overfit(config, images) : largest_of_training(config, images);
  const int64_t multiple = std::max(1, data.pad_multiple());
  return {round_up(size.height, multiple), round_up(size.width, multiple)};
}

Batch largest_batch(const Config& config, std::span<const ImageSize> images, int64_t objects) {
  const config::Augment& augment = config.data().augment();
  const auto [height, width] = largest_batch_size(config, images);
  if (augment.mosaic() > 0 && config.data().overfit() == 0) objects *= 4;
  if (augment.batch_mixup() > 0 && config.data().overfit() == 0) objects *= 2;
  int64_t count = config.data().batch_size();
  if (!config.data().drop_last() && !images.empty()) count = std::min(count, std::ssize(images));
  Batch batch;
  batch.images = Tensor::empty({count, height, width, 3}, DType::kU8);
  Rng rng(hash_name("largest batch"));
  for (uint8_t& pixel : std::span(batch.images.data<uint8_t>(), static_cast<size_t>(batch.images.numel())))
    pixel = static_cast<uint8_t>(rng.below(256));
  for (int64_t n = 0; n < count; ++n) {
    Target target{.image_id = n,
                  .original_height = height,
                  .original_width = width,
                  .height = height,
                  .width = width,
                  .label = 0,
                  .frame = {1, 1}};
    for (int64_t k = 0; k < objects; ++k) {
      const double cx = rng.uniform(0.2, 0.8), cy = rng.uniform(0.2, 0.8), w = rng.uniform(0.05, 0.4),
                   h = rng.uniform(0.05, 0.4);
      target.instances.push_back({.box = box_of_centre(cx, cy, w, h), .area = w * h});
    }
    batch.targets.push_back(std::move(target));
  }
  return batch;
}

}  // namespace saccade
