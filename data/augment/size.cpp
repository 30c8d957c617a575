// Steps that set the size of an image: DETR's crop and short sides, or a fixed size in one of four ways.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

enum class SizeRule { kShortSide, kFixed, kScaleJitter, kAreaCrop, kCenterCrop };

// Returns the rule that the fields select.
SizeRule size_rule(const AugmentFields& f) {
  const double height = f.number("height"), scale_min = f.number("scale_min"),
               scale_max = f.number("scale_max");
  if (height == 0) return SizeRule::kShortSide;
  SACCADE_CHECK(height >= 1 && f.number("width") >= 1, "[augment] height and width must be at least 1");
  if (f.number("val_crop_pct") > 0) return SizeRule::kCenterCrop;
  if (f.number("crop_area_min") > 0) return SizeRule::kAreaCrop;
  bool jitter = scale_max != 0 && (scale_min != 1 || scale_max != 1 || f.number("aspect_jitter") != 1);
  return jitter ? SizeRule::kScaleJitter : SizeRule::kFixed;
}

double visible_part(const AugmentFields& f) {
  double part = f.number("min_area_ratio");
  SACCADE_CHECK(part >= 0 && part <= 1, "[augment] min_area_ratio must be in [0, 1]");
  return part;
}

std::vector<int64_t> sides(const AugmentFields& f, const char* name) {
  std::vector<int64_t> sides = f.integers(name);
  for (int64_t side : sides)
    SACCADE_CHECK(side >= 1, "[augment] {}: a short side must be at least 1 pixel", name);
  return sides;
}

void resize_short_side(Sample& sample, const std::vector<int64_t>& sides, int64_t max_long_side,
                       Filter filter, Rng& rng) {
  int64_t side = sides[static_cast<size_t>(rng.below(static_cast<int64_t>(sides.size())))];
  ImageSize size = detr_size(sample.image.height, sample.image.width, side, max_long_side);
  resize(sample, size.height, size.width, filter);
}

// DETR's RandomSizeCrop: resizes the short side to one of crop_short_sides (if empty, the size stays), then
// keeps a window whose width and height are drawn from [crop_min, crop_max] (both limited to the image).
AugmentFunction make_crop_before(SizeRule rule, const AugmentFields& f) {
  if (size_rule(f) != rule) return nullptr;
  const int64_t min = f.integer("crop_min"), max = f.integer("crop_max");
  SACCADE_CHECK(min >= 1 && max >= min, "[augment] the crop's sizes must be 1 <= crop_min <= crop_max");
  return [min, max, short_sides = sides(f, "crop_short_sides"), min_area_ratio = visible_part(f),
          filter = f.filter](Sample& sample, Rng& rng) {
    if (!short_sides.empty()) resize_short_side(sample, short_sides, 0, filter, rng);
    auto side = [&](int64_t available) {
      int64_t high = std::min(available, max);
      return pick_between(rng, std::min(high, min), high);
    };
    int64_t width = side(sample.image.width), height = side(sample.image.height);
    int64_t y = pick_between(rng, 0, sample.image.height - height);
    int64_t x = pick_between(rng, 0, sample.image.width - width);
    crop(sample, y, x, height, width, min_area_ratio);
  };
}

AugmentFunction make_size_crop(const AugmentFields& f) { return make_crop_before(SizeRule::kShortSide, f); }
AugmentFunction make_stretch_crop(const AugmentFields& f) { return make_crop_before(SizeRule::kFixed, f); }

// Resizes the short side to one of short_sides (if empty, the size stays) and the long side to at most
// long_side (0: no bound).
AugmentFunction make_short_side_resize(const AugmentFields& f) {
  std::vector<int64_t> short_sides = sides(f, "short_sides");
  const int64_t long_side = f.integer("long_side");
  SACCADE_CHECK(long_side >= 0, "[augment] long_side must not be negative");
  if (size_rule(f) != SizeRule::kShortSide || short_sides.empty()) return nullptr;
  return [short_sides, long_side, filter = f.filter](Sample& sample, Rng& rng) {
    resize_short_side(sample, short_sides, long_side, filter, rng);
  };
}

// Stretches to height x width.
AugmentFunction make_fixed_resize(const AugmentFields& f) {
  if (size_rule(f) != SizeRule::kFixed) return nullptr;
  return [height = f.integer("height"), width = f.integer("width"), filter = f.filter](Sample& sample, Rng&) {
    resize(sample, height, width, filter);
  };
}

// Returns the fraction of the most frequent class among the pixels of a window that have a class;
// 1 if there are fewer than two classes.
double largest_share(const LabelMap& labels, int64_t y, int64_t x, ImageSize window) {
  std::unordered_map<uint16_t, int64_t> counts;
  int64_t all = 0, most = 0;
  for (int64_t row = y; row < y + window.height; ++row)
    for (int64_t column = x; column < x + window.width; ++column) {
      const uint16_t label = labels.values[static_cast<size_t>(row * labels.size.width + column)];
      if (label == LabelMap::kIgnored) continue;
      most = std::max(most, ++counts[label]);
      ++all;
    }
  return counts.size() < 2 ? 1 : static_cast<double>(most) / static_cast<double>(all);
}

// "Large-scale jitter" (Ghiasi et al., 2021): resizes to the largest size that fits height x width, or
// scale_short_side and scale_long_side (mmsegmentation), times U(scale_min, scale_max), then crops or pads to
// height x width. For label maps, draws up to ten windows until no class has cat_max_ratio of it. First,
// width and height are stretched against each other by up to aspect_jitter. With pad_as_image a small image
// goes to a random place on a grey canvas that counts as image, instead of the top left with masked padding.
AugmentFunction make_scale_jitter(const AugmentFields& f) {
  if (size_rule(f) != SizeRule::kScaleJitter) return nullptr;
  const double low = f.number("scale_min"), high = f.number("scale_max"),
               aspect_jitter = f.number("aspect_jitter");
  SACCADE_CHECK(low > 0 && high >= low, "[augment] the scales must be 0 < scale_min <= scale_max");
  SACCADE_CHECK(aspect_jitter >= 1, "[augment] aspect_jitter must be at least 1");
  const auto short_side = static_cast<double>(f.integer("scale_short_side")),
             long_side = static_cast<double>(f.integer("scale_long_side"));
  const double share_max = f.number("cat_max_ratio");
  return [=, height = f.integer("height"), width = f.integer("width"),
          pad_as_image = f.number("pad_as_image") != 0, min_area_ratio = visible_part(f),
          filter = f.filter](Sample& sample, Rng& rng) {
    double scale = rng.uniform(low, high);
    double stretch = std::exp(0.5 * std::log(aspect_jitter) * rng.uniform(-1.0, 1.0));
    double w = static_cast<double>(sample.image.width) * stretch,
           h = static_cast<double>(sample.image.height) / stretch;
    double fit = std::min(static_cast<double>(width) / w, static_cast<double>(height) / h);
    if (short_side > 0) fit = short_side / std::min(w, h);
    if (short_side > 0 && long_side > 0) fit = std::min(fit, long_side / std::max(w, h));
    double ratio = scale * fit;
    int64_t scaled_w = std::max<int64_t>(1, std::llround(w * ratio));
    int64_t scaled_h = std::max<int64_t>(1, std::llround(h * ratio));
    // The whole image is resized before cropping, so that the filter sees the same neighbours as in
    // evaluation.
    resize(sample, scaled_h, scaled_w, filter);
    int64_t kept_h = std::min(scaled_h, height), kept_w = std::min(scaled_w, width);
    int64_t y = pick_between(rng, 0, scaled_h - kept_h), x = pick_between(rng, 0, scaled_w - kept_w);
    if (share_max > 0 && share_max < 1 && !sample.label_map.values.empty())
      for (int draw = 1; draw < 10 && largest_share(sample.label_map, y, x, {kept_h, kept_w}) >= share_max;
           ++draw) {
        y = pick_between(rng, 0, scaled_h - kept_h);
        x = pick_between(rng, 0, scaled_w - kept_w);
      }
    if (kept_h < scaled_h || kept_w < scaled_w) crop(sample, y, x, kept_h, kept_w, min_area_ratio);
    if (pad_as_image) {
      int64_t top = pick_between(rng, 0, height - kept_h), left = pick_between(rng, 0, width - kept_w);
      place_on_canvas(sample, height, width, top, left);
    }
    sample.canvas_height = height;
    sample.canvas_width = width;
  };
}

// torchvision's RandomResizedCrop: crops a window with a random fraction of the area and a random aspect
// ratio (width / height) or, if ten draws do not fit, the largest centred one with an allowed ratio,
// and stretches it to height x width.
AugmentFunction make_area_crop(const AugmentFields& f) {
  if (size_rule(f) != SizeRule::kAreaCrop) return nullptr;
  const double area_min = f.number("crop_area_min"), area_max = f.number("crop_area_max"),
               ratio_min = f.number("crop_ratio_min"), ratio_max = f.number("crop_ratio_max");
  SACCADE_CHECK(
      area_min > 0 && area_max >= area_min && area_max <= 1 && ratio_min > 0 && ratio_max >= ratio_min,
      "[augment] a crop must have 0 < crop_area_min <= crop_area_max <= 1 and 0 < crop_ratio_min <= crop_ratio_max");
  auto window = [=, min_area_ratio = visible_part(f)](Sample& sample, Rng& rng) {
    const int64_t H = sample.image.height, W = sample.image.width;
    const double area = static_cast<double>(H * W);
    for (int attempt = 0; attempt < 10; ++attempt) {
      double target = area * rng.uniform(area_min, area_max);
      double ratio = std::exp(rng.uniform(std::log(ratio_min), std::log(ratio_max)));
      auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
      auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
      if (width < 1 || width > W || height < 1 || height > H) continue;
      int64_t y = pick_between(rng, 0, H - height), x = pick_between(rng, 0, W - width);
      return crop(sample, y, x, height, width, min_area_ratio);
    }
    double ratio = std::clamp(static_cast<double>(W) / static_cast<double>(H), ratio_min, ratio_max);
    auto fit = [](double side, int64_t most) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(side)), 1, most);
    };
    int64_t width = fit(static_cast<double>(H) * ratio, W), height = fit(static_cast<double>(W) / ratio, H);
    crop(sample, (H - height) / 2, (W - width) / 2, height, width, min_area_ratio);
  };
  return [window, height = f.integer("height"), width = f.integer("width"), filter = f.filter](Sample& sample,
                                                                                               Rng& rng) {
    window(sample, rng);
    resize(sample, height, width, filter);
  };
}

// timm's evaluation of classifiers: resizes the short side to that of height x width divided by val_crop_pct,
// then crops the centre.
AugmentFunction make_center_crop(const AugmentFields& f) {
  if (size_rule(f) != SizeRule::kCenterCrop) return nullptr;
  const double part = f.number("val_crop_pct");
  SACCADE_CHECK(part <= 1, "[augment] val_crop_pct must be in (0, 1]");
  return [part, height = f.integer("height"), width = f.integer("width"), filter = f.filter](Sample& sample,
                                                                                             Rng&) {
    // The target of the short side is that of the longer fixed side, so that the window always fits.
    const int64_t longer = std::max(height, width);
    const int64_t side =
        std::max(longer, static_cast<int64_t>(std::floor(static_cast<double>(longer) / part)));
    ImageSize size = detr_size(sample.image.height, sample.image.width, side, 0);
    resize(sample, size.height, size.width, filter);
    auto middle = [](int64_t outer, int64_t inner) {  // rounds halves to even, like Python's round
      return static_cast<int64_t>(std::nearbyint(static_cast<double>(outer - inner) / 2));
    };
    crop(sample, middle(size.height, height), middle(size.width, width), height, width);
  };
}

bool add_size(const char* name, AugmentFunction (*make)(const AugmentFields&)) {
  return augmentations().add({.name = name, .order = 30, .make = make});
}

[[maybe_unused]] const bool sizes_registered =
    augmentations().add(
        {.name = "size_crop", .order = 20, .probability = "crop_probability", .make = &make_size_crop}) &&
    augmentations().add(
        {.name = "stretch_crop", .order = 20, .probability = "stretch_crop", .make = &make_stretch_crop}) &&
    add_size("short_side_resize", &make_short_side_resize) && add_size("fixed_resize", &make_fixed_resize) &&
    add_size("scale_jitter", &make_scale_jitter) && add_size("area_crop", &make_area_crop) &&
    add_size("center_crop", &make_center_crop);

}  // namespace
}  // namespace saccade
