#include "data/augment/augment.h"

#include <algorithm>
#include <cmath>

#include "core/tensor/error.h"

namespace saccade {
namespace {

// The closed range [low, high].
int64_t pick_between(Rng& rng, int64_t low, int64_t high) { return low + rng.below(high - low + 1); }
int64_t pick(Rng& rng, const std::vector<int64_t>& choices) {
  return choices[static_cast<size_t>(rng.below(static_cast<int64_t>(choices.size())))];
}

void random_size_crop(Sample& sample, const AugmentOptions& options, Rng& rng) {
  if (!options.crop_short_sides.empty()) {
    ImageSize size =
        detr_size(sample.image.height, sample.image.width, pick(rng, options.crop_short_sides), 0);
    resize(sample, size.height, size.width, options.filter);
  }
  auto side = [&](int64_t available) {
    int64_t high = std::min(available, options.crop_max);
    return pick_between(rng, std::min(high, options.crop_min), high);
  };
  int64_t width = side(sample.image.width), height = side(sample.image.height);
  int64_t y = pick_between(rng, 0, sample.image.height - height);
  int64_t x = pick_between(rng, 0, sample.image.width - width);
  crop(sample, y, x, height, width, options.min_visible);
}

void scale_jitter(Sample& sample, const AugmentOptions& options, Rng& rng) {
  double scale = rng.uniform(options.scale_min, options.scale_max);
  double stretch = std::exp(0.5 * std::log(options.max_stretch) * rng.uniform(-1.0, 1.0));
  double w = static_cast<double>(sample.image.width) * stretch,
         h = static_cast<double>(sample.image.height) / stretch;
  double ratio = scale * std::min(static_cast<double>(options.fixed_width) / w,
                                  static_cast<double>(options.fixed_height) / h);
  int64_t width = std::max<int64_t>(1, std::llround(w * ratio));
  int64_t height = std::max<int64_t>(1, std::llround(h * ratio));
  // The whole image is resized before the window is cut, so the filter sees the same neighbours as in
  // evaluation.
  resize(sample, height, width, options.filter);
  int64_t keep_h = std::min(height, options.fixed_height), keep_w = std::min(width, options.fixed_width);
  int64_t y = pick_between(rng, 0, height - keep_h), x = pick_between(rng, 0, width - keep_w);
  if (keep_h < height || keep_w < width) crop(sample, y, x, keep_h, keep_w, options.min_visible);
  if (options.pad_as_image) {
    int64_t top = pick_between(rng, 0, options.fixed_height - keep_h);
    int64_t left = pick_between(rng, 0, options.fixed_width - keep_w);
    place_on_canvas(sample, options.fixed_height, options.fixed_width, top, left);
  }
  sample.canvas_height = options.fixed_height;
  sample.canvas_width = options.fixed_width;
}

// torchvision's RandomResizedCrop: a window of a random share of the area and a random aspect ratio, or, when
// ten draws do not fit, the largest centred one of an allowed ratio.
void random_area_crop(Sample& sample, const AugmentOptions& o, Rng& rng) {
  const int64_t H = sample.image.height, W = sample.image.width;
  const double area = static_cast<double>(H * W);
  for (int attempt = 0; attempt < 10; ++attempt) {
    double target = area * rng.uniform(o.area_min, o.area_max);
    double ratio = std::exp(rng.uniform(std::log(o.ratio_min), std::log(o.ratio_max)));
    auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
    auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
    if (width < 1 || width > W || height < 1 || height > H) continue;
    int64_t y = pick_between(rng, 0, H - height), x = pick_between(rng, 0, W - width);
    return crop(sample, y, x, height, width, o.min_visible);
  }
  double ratio = std::clamp(static_cast<double>(W) / static_cast<double>(H), o.ratio_min, o.ratio_max);
  auto fit = [](double side, int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(side)), 1, most);
  };
  int64_t width = fit(static_cast<double>(H) * ratio, W), height = fit(static_cast<double>(W) / ratio, H);
  crop(sample, (H - height) / 2, (W - width) / 2, height, width, o.min_visible);
}

// Random erasing (Zhong et al., 2020) with timm's ranges, attempts and noise.
void erase(Image& image, const AugmentOptions& o, Rng& rng) {
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
        double value = 255 * (o.noise_mean[i % 3] + o.noise_std[i % 3] * rng.normal());
        p[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
      }
    }
    return;
  }
}

// timm's evaluation transform: the short side to the fixed size divided by its share, then the centre.
void center_crop(Sample& sample, const AugmentOptions& o) {
  auto wanted = [&](int64_t side) {
    return std::max(side, static_cast<int64_t>(std::floor(static_cast<double>(side) / o.center_share)));
  };
  // The short side's target is that of the longer fixed side, so that the window always fits.
  ImageSize size =
      detr_size(sample.image.height, sample.image.width, wanted(std::max(o.fixed_height, o.fixed_width)), 0);
  resize(sample, size.height, size.width, o.filter);
  auto middle = [](int64_t outer, int64_t inner) {  // halves to even, as Python's round
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(outer - inner) / 2));
  };
  crop(sample, middle(size.height, o.fixed_height), middle(size.width, o.fixed_width), o.fixed_height,
       o.fixed_width, o.min_visible);
}

}  // namespace

void check_augment_options(const AugmentOptions& o) {
  auto require = [](bool ok, const char* what) { SACCADE_CHECK(ok, "[augment] {}", what); };
  for (double p : {o.horizontal_flip, o.vertical_flip, o.rotation90, o.crop_probability, o.color_probability,
                   o.erase_probability}) {
    require(p >= 0 && p <= 1, "a probability must be in [0, 1]");
  }
  require(o.crop_probability == 0 || (o.crop_min >= 1 && o.crop_max >= o.crop_min),
          "the crop's sizes must be 1 <= crop_min <= crop_max");
  for (int64_t side : o.crop_short_sides) require(side >= 1, "a short side must be at least 1 pixel");
  for (int64_t side : o.short_sides) require(side >= 1, "a short side must be at least 1 pixel");
  using Resize = AugmentOptions::Resize;
  require(o.resize != Resize::kShortSide || !o.short_sides.empty(), "short_sides must not be empty");
  require(o.max_long_side >= 0, "max_long_side must not be negative");
  require(o.resize == Resize::kNone || o.resize == Resize::kShortSide ||
              (o.fixed_width >= 1 && o.fixed_height >= 1),
          "fixed_width and fixed_height must be at least 1");
  require(o.resize != Resize::kScaleJitter || (o.scale_min > 0 && o.scale_max >= o.scale_min),
          "the scales must be 0 < scale_min <= scale_max");
  require(o.resize != Resize::kRandomArea || (o.area_min > 0 && o.area_max >= o.area_min && o.area_max <= 1 &&
                                              o.ratio_min > 0 && o.ratio_max >= o.ratio_min),
          "a crop must have 0 < area_min <= area_max <= 1 and 0 < ratio_min <= ratio_max");
  require(o.center_share > 0 && o.center_share <= 1, "the centre's share must be in (0, 1]");
  require(o.max_stretch >= 1, "max_stretch must be at least 1");
  require(o.min_visible >= 0 && o.min_visible <= 1, "min_visible must be in [0, 1]");
  for (double v : {o.brightness, o.contrast, o.saturation})
    require(v >= 0 && v <= 1, "a colour range must be in [0, 1]");
  require(o.hue >= 0 && o.hue <= 0.5, "the hue range must be in [0, 0.5]");
}

Sample augment(Sample sample, const AugmentOptions& options, Rng& rng) {
  auto happens = [&](double probability) { return probability > 0 && rng.uniform() < probability; };
  if (happens(options.horizontal_flip)) flip_horizontal(sample);
  if (happens(options.vertical_flip)) flip_vertical(sample);
  if (happens(options.rotation90)) rotate90(sample, static_cast<int>(pick_between(rng, 1, 3)));
  if (happens(options.crop_probability)) random_size_crop(sample, options, rng);
  switch (options.resize) {
    case AugmentOptions::Resize::kNone:
      break;
    case AugmentOptions::Resize::kShortSide: {
      ImageSize size = detr_size(sample.image.height, sample.image.width, pick(rng, options.short_sides),
                                 options.max_long_side);
      resize(sample, size.height, size.width, options.filter);
      break;
    }
    case AugmentOptions::Resize::kRandomArea:
      random_area_crop(sample, options, rng);
      [[fallthrough]];
    case AugmentOptions::Resize::kFixed:
      resize(sample, options.fixed_height, options.fixed_width, options.filter);
      break;
    case AugmentOptions::Resize::kCenter:
      center_crop(sample, options);
      break;
    case AugmentOptions::Resize::kScaleJitter:
      scale_jitter(sample, options, rng);
      break;
  }
  if (happens(options.color_probability)) {
    auto factor = [&](double range) { return rng.uniform(1 - range, 1 + range); };
    double brightness = factor(options.brightness), contrast = factor(options.contrast);
    double saturation = factor(options.saturation), hue = rng.uniform(-options.hue, options.hue);
    change_color(sample.image, brightness, contrast, saturation, hue);
  }
  if (happens(options.erase_probability)) erase(sample.image, options, rng);
  return sample;
}

ImageSize detr_size(int64_t height, int64_t width, int64_t short_side, int64_t max_long_side) {
  double shorter = static_cast<double>(std::min(height, width)),
         longer = static_cast<double>(std::max(height, width));
  int64_t size = short_side;
  if (max_long_side > 0 &&
      longer / shorter * static_cast<double>(size) > static_cast<double>(max_long_side)) {
    // Python's round() goes to even at a tie, as nearbyint does.
    size = std::max<int64_t>(
        1, static_cast<int64_t>(std::nearbyint(static_cast<double>(max_long_side) * shorter / longer)));
  }
  if (std::min(height, width) == size) return {height, width};
  if (width < height) return {size * height / width, size};
  return {size, size * width / height};
}

}  // namespace saccade
