// Tests label maps in the augmentations: every pixel keeps its class.
#include <gtest/gtest.h>

#include <map>

#include "data/augment/augment.h"
#include "data/loading/loader.h"

namespace saccade {
namespace {

constexpr uint8_t kGreyStep = 50;  // the step in grey from one class to the next

Sample sample_of(int64_t height, int64_t width, const std::function<uint16_t(int64_t y, int64_t x)>& label) {
  Sample sample;
  sample.image = Image(height, width);
  sample.label_map = LabelMap({height, width});
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const auto i = static_cast<size_t>(y * width + x);
      sample.label_map.values[i] = label(y, x);
      for (size_t c = 0; c < 3; ++c)
        sample.image.rgb[3 * i + c] = static_cast<uint8_t>((label(y, x) + 1) * kGreyStep);
    }
  return sample;
}

double largest_share(const LabelMap& labels) {
  std::map<uint16_t, double> counts;
  double all = 0, most = 0;
  for (uint16_t v : labels.values)
    if (v != LabelMap::kIgnored) most = std::max(most, ++counts[v]), ++all;
  return most / all;
}

TEST(LabelMapAugment, PixelsKeepTheirClasses) {
  const Sample whole =
      sample_of(40, 60, [](int64_t y, int64_t x) { return static_cast<uint16_t>((y / 7 + x / 9) % 4); });
  const Augmentation steps = make_augmentation({.values = {{"height", {50}},
                                                           {"width", {50}},
                                                           {"scale_min", {0.99999}},
                                                           {"scale_max", {1}},
                                                           {"aspect_jitter", {1}},
                                                           {"scale_short_side", {40}},
                                                           {"cat_max_ratio", {0.5}},
                                                           {"horizontal_flip", {0.5}},
                                                           {"rotate90", {0.5}}}});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    Sample sample = augment(whole, steps, rng);
    const ImageSize size{sample.image.height, sample.image.width};
    ASSERT_EQ(sample.label_map.size, size);
    for (size_t i = 0; i < sample.label_map.values.size(); ++i)
      ASSERT_EQ(sample.image.rgb[3 * i], (sample.label_map.values[i] + 1) * kGreyStep);
    Target target = make_target(sample, {40, 60});
    ASSERT_TRUE(target.label_map);
    EXPECT_EQ(*target.label_map, sample.label_map);
  }
}

TEST(LabelMapAugment, ScalesASizeOfItsOwn) {
  const auto size_of = [](double scale, double short_side, double long_side) {
    Rng rng(1);
    const Sample out = augment(sample_of(40, 60, [](int64_t, int64_t) { return 0; }),
                               make_augmentation({.values = {{"height", {500}},
                                                             {"width", {500}},
                                                             {"scale_min", {scale}},
                                                             {"scale_max", {scale}},
                                                             {"aspect_jitter", {1}},
                                                             {"scale_short_side", {short_side}},
                                                             {"scale_long_side", {long_side}}}}),
                               rng);
    EXPECT_EQ(out.label_map.size, (ImageSize{out.image.height, out.image.width}));
    return out.label_map.size;
  };
  EXPECT_EQ(size_of(2, 80, 0), (ImageSize{160, 240}));
  EXPECT_EQ(size_of(2, 80, 90), (ImageSize{120, 180}));
  EXPECT_EQ(size_of(0.5, 0, 0), (ImageSize{167, 250}));  // of the fixed size
}

TEST(LabelMapAugment, AWindowIsDrawnAgainWhereOneClassFillsIt) {
  const Sample whole =
      sample_of(64, 256, [](int64_t, int64_t x) { return static_cast<uint16_t>(x < 192 ? 0 : 1 + x % 3); });
  int filled[2] = {0, 0};
  for (const double share : {1.0, 0.75}) {
    const Augmentation steps = make_augmentation({.values = {{"height", {64}},
                                                             {"width", {64}},
                                                             {"scale_min", {0.99999}},
                                                             {"scale_max", {1}},
                                                             {"aspect_jitter", {1}},
                                                             {"scale_short_side", {64}},
                                                             {"cat_max_ratio", {share}}}});
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Rng rng(seed);
      filled[share < 1] += largest_share(augment(whole, steps, rng).label_map) >= 0.75;
    }
  }
  EXPECT_GT(filled[0], 120);  // 0.7 of the places
  EXPECT_LT(filled[1], 20);   // 0.7^10
}

}  // namespace
}  // namespace saccade
