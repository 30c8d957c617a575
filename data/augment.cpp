#include "data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/error.h"
#include "data/pixel4.h"
#include "data/resize.h"

namespace saccade {
namespace {

constexpr std::array<uint8_t, 3> kGrey = {124, 116, 104};

// The closed range [low, high].
int64_t pick_between(Rng& rng, int64_t low, int64_t high) { return low + rng.below(high - low + 1); }
int64_t pick(Rng& rng, const std::vector<int64_t>& choices) {
  return choices[static_cast<size_t>(rng.below(static_cast<int64_t>(choices.size())))];
}

void random_size_crop(Sample& sample, const AugmentOptions& options, Rng& rng) {
  if (!options.crop_short_sides.empty()) {
    ImageSize size =
        detr_size(sample.image.height, sample.image.width, pick(rng, options.crop_short_sides), 0);
    resize(sample, size.height, size.width);
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
  resize(sample, height, width);
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

struct ColorMap {
  double m[3][3];
  double offset[3];
};

ColorMap color_map(double b, double c, double s, double hue, double mean_gray) {
  constexpr double kGray[3] = {0.299, 0.587, 0.114};
  // The hue turns in the chroma plane of YIQ, which leaves the luma as it is.
  constexpr double kI[3] = {0.595716, -0.274453, -0.321263}, kQ[3] = {0.211456, -0.522591, 0.311135};
  constexpr double kFromI[3] = {0.9563, -0.2721, -1.1070}, kFromQ[3] = {0.6210, -0.6474, 1.7046};
  double cos = std::cos(2 * std::numbers::pi * hue), sin = std::sin(2 * std::numbers::pi * hue);
  ColorMap map{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      double chroma = hue == 0
                          ? (i == j ? 1.0 : 0.0) - kGray[j]
                          : kFromI[i] * (cos * kI[j] - sin * kQ[j]) + kFromQ[i] * (sin * kI[j] + cos * kQ[j]);
      map.m[i][j] = b * c * (kGray[j] + s * chroma);
    }
    map.offset[i] = (1 - c) * b * mean_gray;
  }
  return map;
}

double mean_gray_of(const Image& image) {
  int64_t sums[3] = {0, 0, 0};
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    for (size_t k = 0; k < 3; ++k) sums[k] += image.rgb[i + k];
  }
  double pixels = static_cast<double>(image.height * image.width);
  return (0.299 * static_cast<double>(sums[0]) + 0.587 * static_cast<double>(sums[1]) +
          0.114 * static_cast<double>(sums[2])) /
         pixels;
}

}  // namespace

void check_augment_options(const AugmentOptions& o) {
  auto require = [](bool ok, const char* what) {
    if (!ok) fail_input("augmentation: {}", what);
  };
  for (double p :
       {o.horizontal_flip, o.vertical_flip, o.rotation90, o.crop_probability, o.color_probability}) {
    require(p >= 0 && p <= 1, "a probability must be in [0, 1]");
  }
  require(o.crop_probability == 0 || (o.crop_min >= 1 && o.crop_max >= o.crop_min),
          "the crop's sizes must be 1 <= crop_min <= crop_max");
  for (int64_t side : o.crop_short_sides) require(side >= 1, "a short side must be at least 1 pixel");
  for (int64_t side : o.short_sides) require(side >= 1, "a short side must be at least 1 pixel");
  using Resize = AugmentOptions::Resize;
  require(o.resize != Resize::kShortSide || !o.short_sides.empty(), "short_sides must not be empty");
  require(o.max_long_side >= 0, "max_long_side must not be negative");
  require((o.resize != Resize::kFixed && o.resize != Resize::kScaleJitter) ||
              (o.fixed_width >= 1 && o.fixed_height >= 1),
          "fixed_width and fixed_height must be at least 1");
  require(o.resize != Resize::kScaleJitter || (o.scale_min > 0 && o.scale_max >= o.scale_min),
          "the scales must be 0 < scale_min <= scale_max");
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
      resize(sample, size.height, size.width);
      break;
    }
    case AugmentOptions::Resize::kFixed:
      resize(sample, options.fixed_height, options.fixed_width);
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

void flip_horizontal(Sample& sample) {
  Image& image = sample.image;
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* a = image.row(y);
    uint8_t* b = a + (image.width - 1) * 3;
    for (; a < b; a += 3, b -= 3) {
      for (int k = 0; k < 3; ++k) std::swap(a[k], b[k]);
    }
  }
  double w = static_cast<double>(image.width);
  for (SampleBox& box : sample.boxes) {
    double x1 = w - box.x2;
    box.x2 = w - box.x1;
    box.x1 = x1;
  }
}

void flip_vertical(Sample& sample) {
  Image& image = sample.image;
  for (int64_t y = 0; y < image.height / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y) + image.width * 3, image.row(image.height - 1 - y));
  }
  double h = static_cast<double>(image.height);
  for (SampleBox& box : sample.boxes) {
    double y1 = h - box.y2;
    box.y2 = h - box.y1;
    box.y1 = y1;
  }
}

void rotate90(Sample& sample, int turns) {
  turns &= 3;
  if (turns == 2) {
    flip_horizontal(sample);
    flip_vertical(sample);
    return;
  }
  if (turns == 3) rotate90(sample, 2);
  if (turns == 0) return;
  const Image& in = sample.image;
  Image out(in.width, in.height);
  for (int64_t y = 0; y < out.height; ++y) {
    uint8_t* dst = out.row(y);
    for (int64_t x = 0; x < out.width; ++x) std::memcpy(dst + x * 3, in.row(x) + (in.width - 1 - y) * 3, 3);
  }
  double w = static_cast<double>(in.width);
  for (SampleBox& box : sample.boxes) {
    SampleBox old = box;
    box.x1 = old.y1;
    box.x2 = old.y2;
    box.y1 = w - old.x2;
    box.y2 = w - old.x1;
  }
  sample.image = std::move(out);
}

void crop(Sample& sample, int64_t y, int64_t x, int64_t height, int64_t width, double min_visible) {
  const Image& in = sample.image;
  SACCADE_CHECK(
      y >= 0 && x >= 0 && height > 0 && width > 0 && y + height <= in.height && x + width <= in.width,
      "[crop] window at ({}, {}) of {} x {} does not lie in an image of {} x {}", x, y, width, height,
      in.width, in.height);
  Image out(height, width);
  for (int64_t i = 0; i < height; ++i) {
    std::memcpy(out.row(i), in.row(y + i) + x * 3, static_cast<size_t>(width * 3));
  }
  sample.image = std::move(out);
  double w = static_cast<double>(width), h = static_cast<double>(height);
  double dx = static_cast<double>(x), dy = static_cast<double>(y);
  std::vector<SampleBox> kept;
  for (SampleBox box : sample.boxes) {
    double before = (box.x2 - box.x1) * (box.y2 - box.y1);
    box.x1 = std::clamp(box.x1 - dx, 0.0, w);
    box.x2 = std::clamp(box.x2 - dx, 0.0, w);
    box.y1 = std::clamp(box.y1 - dy, 0.0, h);
    box.y2 = std::clamp(box.y2 - dy, 0.0, h);
    if (box.x2 <= box.x1 || box.y2 <= box.y1) continue;
    double after = (box.x2 - box.x1) * (box.y2 - box.y1);
    if (after < min_visible * before) continue;
    box.area = after;  // as DETR: the object's own area is unknown once its box is cut
    kept.push_back(box);
  }
  sample.boxes = std::move(kept);
}

void resize(Sample& sample, int64_t height, int64_t width) {
  if (height == sample.image.height && width == sample.image.width) return;
  double rx = static_cast<double>(width) / static_cast<double>(sample.image.width);
  double ry = static_cast<double>(height) / static_cast<double>(sample.image.height);
  sample.image = resize_bilinear(sample.image, height, width);
  for (SampleBox& box : sample.boxes) {
    box.x1 *= rx;
    box.x2 *= rx;
    box.y1 *= ry;
    box.y2 *= ry;
    box.area *= rx * ry;
  }
}

void place_on_canvas(Sample& sample, int64_t height, int64_t width, int64_t y, int64_t x) {
  const Image& in = sample.image;
  SACCADE_CHECK(y >= 0 && x >= 0 && y + in.height <= height && x + in.width <= width,
                "[place_on_canvas] {} x {} pixels at ({}, {}) do not fit {} x {}", in.width, in.height, x, y,
                width, height);
  Image out(height, width);
  for (size_t i = 0; i < out.rgb.size(); i += 3) std::memcpy(out.rgb.data() + i, kGrey.data(), 3);
  for (int64_t i = 0; i < in.height; ++i) {
    std::memcpy(out.row(y + i) + x * 3, in.row(i), static_cast<size_t>(in.width * 3));
  }
  sample.image = std::move(out);
  for (SampleBox& box : sample.boxes) {
    box.x1 += static_cast<double>(x);
    box.x2 += static_cast<double>(x);
    box.y1 += static_cast<double>(y);
    box.y2 += static_cast<double>(y);
  }
}

void change_color(Image& image, double brightness, double contrast, double saturation, double hue) {
  if (image.rgb.empty()) return;
  ColorMap map = color_map(brightness, contrast, saturation, hue, mean_gray_of(image));
  // 16 fractional bits; integers give the same bytes whatever the compiler contracts. Each input byte looks
  // up what it adds to the three outputs.
  std::vector<Int4> table(3 * 256);
  for (size_t j = 0; j < 3; ++j) {
    Int4 column{}, offset{};
    for (size_t i = 0; i < 3; ++i) {
      column[i] = static_cast<int32_t>(std::lround(map.m[i][j] * 65536));
      if (j == 0) offset[i] = static_cast<int32_t>(std::lround(map.offset[i] * 65536)) + 32768;
    }
    for (int32_t v = 0; v < 256; ++v) table[j * 256 + static_cast<size_t>(v)] = column * v + offset;
  }
  const Int4 *red = table.data(), *green = red + 256, *blue = green + 256;
  for (size_t p = 0; p < image.rgb.size(); p += 3) {
    uint8_t* c = image.rgb.data() + p;
    uint32_t pixel = pack_pixel((red[c[0]] + green[c[1]] + blue[c[2]]) >> 16);
    std::memcpy(c, &pixel, 3);
  }
}

}  // namespace saccade
