// RandomPhotometricDistort of torchvision with its ranges, as used by SSD (Liu et al., 2016) and the RT-DETR
// family: each of brightness, contrast, saturation, hue and the order of the channels changes with its own
// probability. The arithmetic is Pillow's, 8 bits between two changes and f32 inside, in tables, so that no
// compiler can contract it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/tensor/error.h"
#include "data/augment/augment.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

int luma(const uint8_t* p) { return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16; }

// Blends a and b: a + factor * (b - a), clamped to a byte. Indexed by b - a, from -255 to 255.
class Blend {
 public:
  explicit Blend(double factor) {
    const double single = static_cast<float>(factor);
    for (size_t i = 0; i < std::size(part_); ++i)
      part_[i] = static_cast<float>(single * (static_cast<double>(i) - 255));
  }
  uint8_t operator()(int a, int b) const {
    const int place = b - a + 255;
    const float sum = static_cast<float>(a) + part_[static_cast<size_t>(place)];
    return static_cast<uint8_t>(std::clamp(sum, 0.0F, 255.0F));
  }

 private:
  std::array<float, 511> part_;
};

// Blends each byte with one value.
void blend_with(Image& image, int value, double factor) {
  const Blend blend(factor);
  std::array<uint8_t, 256> table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = blend(value, v);
  for (uint8_t& v : image.rgb) v = table[v];
}

void change_contrast(Image& image, double factor) {
  int64_t sum = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) sum += luma(image.rgb.data() + i);
  const double mean = static_cast<double>(sum) / static_cast<double>(image.height * image.width);
  blend_with(image, static_cast<int>(mean + 0.5), factor);
}

void change_saturation(Image& image, double factor) {
  const Blend blend(factor);
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    uint8_t* p = image.rgb.data() + i;
    const int grey = luma(p);
    for (int k = 0; k < 3; ++k) p[k] = blend(grey, p[k]);
  }
}

uint8_t byte_of(double value) { return static_cast<uint8_t>(std::clamp(static_cast<int>(value), 0, 255)); }

// Converts to Pillow's HSV in bytes, turns the hue, and converts back.
void change_hue(uint8_t* p, uint8_t turn) {
  const int r = p[0], g = p[1], b = p[2];
  const int most = std::max({r, g, b}), range = most - std::min({r, g, b});
  if (range == 0) return;
  const auto away = [&](int v) { return static_cast<float>(most - v) / static_cast<float>(range); };
  double sector = 0;
  if (r == most)
    sector = static_cast<double>(away(b) - away(g));
  else
    sector = g == most ? 2.0 + static_cast<double>(away(r)) - static_cast<double>(away(b))
                       : 4.0 + static_cast<double>(away(g)) - static_cast<double>(away(r));
  const double part = static_cast<float>(sector) / 6.0 + 1.0;
  const auto hue = static_cast<float>(part - std::floor(part));
  const float saturation = static_cast<float>(range) / static_cast<float>(most);
  const auto h = static_cast<uint8_t>(byte_of(static_cast<double>(hue) * 255.0) + turn);
  const uint8_t s = byte_of(static_cast<double>(saturation) * 255.0);
  const auto v = static_cast<uint8_t>(most);
  if (s == 0) {
    p[0] = p[1] = p[2] = v;
    return;
  }
  const double turned = h * 6.0 / 255.0;
  const int side = static_cast<int>(turned);
  const auto f = static_cast<float>(turned - side), fs = static_cast<float>(s / 255.0);
  const auto shade = [&](double less) { return byte_of(std::round(v * (1.0 - less))); };
  const uint8_t low = shade(fs), falling = shade(fs * f), rising = shade(fs * (1.0 - f));
  const uint8_t sides[6][3] = {{v, rising, low},  {falling, v, low}, {low, v, rising},
                               {low, falling, v}, {rising, low, v},  {v, low, falling}};
  std::copy_n(sides[side % 6], 3, p);
}

PhotometricChange draw_change(double probability, Rng& rng) {
  PhotometricChange change;
  auto draw = [&](std::optional<double>& value, double low, double high) {
    if (rng.uniform() < probability) value = rng.uniform(low, high);
  };
  draw(change.brightness, 0.875, 1.125);
  draw(change.contrast, 0.5, 1.5);
  draw(change.saturation, 0.5, 1.5);
  draw(change.hue, -0.05, 0.05);
  change.contrast_first = rng.uniform() < 0.5;
  if (rng.uniform() < probability)
    for (int64_t i = 2; i > 0; --i)
      std::swap(change.channels[static_cast<size_t>(i)],
                change.channels[static_cast<size_t>(rng.below(i + 1))]);
  return change;
}

PixelFunction make_photometric(const AugmentFields& fields) {
  const double probability = fields.number("photometric_distortion");
  SACCADE_CHECK(probability >= 0 && probability <= 1,
                "[augment] photometric_distortion: a probability must be in [0, 1]");
  if (probability == 0) return nullptr;
  return [probability](Image& image, Rng& rng) { change_photometry(image, draw_change(probability, rng)); };
}

[[maybe_unused]] const bool photometric_registered =
    augmentations().add({.name = "photometric_distortion",
                         .order = -30,
                         .phase = AugmentPhase::kStrong,
                         .make_of_pixels = &make_photometric});

}  // namespace

void change_photometry(Image& image, const PhotometricChange& change) {
  if (image.rgb.empty()) return;
  if (change.brightness) blend_with(image, 0, *change.brightness);
  if (change.contrast && change.contrast_first) change_contrast(image, *change.contrast);
  if (change.saturation) change_saturation(image, *change.saturation);
  if (change.hue) {
    const auto turn = static_cast<uint8_t>(static_cast<int>(*change.hue * 255));
    for (size_t i = 0; i < image.rgb.size(); i += 3) change_hue(image.rgb.data() + i, turn);
  }
  if (change.contrast && !change.contrast_first) change_contrast(image, *change.contrast);
  if (change.channels == std::array<int, 3>{0, 1, 2}) return;
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    uint8_t* p = image.rgb.data() + i;
    const uint8_t old[3] = {p[0], p[1], p[2]};
    for (size_t k = 0; k < 3; ++k) p[k] = old[change.channels[k]];
  }
}

}  // namespace saccade
