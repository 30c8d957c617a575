#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "data/augment/augment.h"
#include "data/augment/transforms.h"
#include "data/images/pixel4.h"

namespace saccade {
namespace {

struct ColorMap {
  double m[3][3];
  double offset[3];
};

ColorMap color_map(double b, double c, double s, double hue, double mean_gray) {
  constexpr double kGray[3] = {0.299, 0.587, 0.114};
  // The hue turns in the chroma plane of YIQ, which keeps the luma unchanged.
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

// Draws factors from [1 - v, 1 + v] for brightness, contrast and saturation,
// and a turn of the hue from [-hue, hue].
PixelFunction make_color_jitter(const AugmentFields& fields) {
  const double brightness = fields.number("brightness"), contrast = fields.number("contrast"),
               saturation = fields.number("saturation"), hue = fields.number("hue");
  for (double v : {brightness, contrast, saturation})
    SACCADE_CHECK(v >= 0 && v <= 1, "[augment] a colour range must be in [0, 1]");
  SACCADE_CHECK(hue >= 0 && hue <= 0.5, "[augment] the hue range must be in [0, 0.5]");
  if (brightness == 0 && contrast == 0 && saturation == 0 && hue == 0) return nullptr;
  return [=](Image& image, Rng& rng) {
    double b = rng.uniform(1 - brightness, 1 + brightness), c = rng.uniform(1 - contrast, 1 + contrast);
    double s = rng.uniform(1 - saturation, 1 + saturation), turn = rng.uniform(-hue, hue);
    change_color(image, b, c, s, turn);
  };
}

[[maybe_unused]] const bool color_jitter_registered =
    augmentations().add({.name = "color_jitter",
                         .order = 40,
                         .probability = "color_probability",
                         .make_of_pixels = &make_color_jitter});

}  // namespace

void change_color(Image& image, double brightness, double contrast, double saturation, double hue) {
  if (image.rgb.empty()) return;
  ColorMap map = color_map(brightness, contrast, saturation, hue, mean_gray_of(image));
  // 16 fractional bits; integers give the same bytes however the compiler contracts operations. A table gives
  // what each input byte adds to the three outputs.
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
