// Tests what only classifiers use: random area crops, erasing, and mixing within a batch.
#include <gtest/gtest.h>

#include <cmath>

#include "data/augment/augment.h"
#include "data/loading/mix.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

// Red counts the columns, green the rows: a resized window shows where it was cut.
Image ramp(int64_t height, int64_t width) {
  Image image(height, width);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      image.row(y)[x * 3] = static_cast<uint8_t>(x);
      image.row(y)[x * 3 + 1] = static_cast<uint8_t>(y);
    }
  return image;
}

// Makes squares of `side` pixels from windows of these fractions of the area.
Augmentation area_crop(double side, double area_min, double area_max) {
  return make_augmentation({{{"height", {side}},
                             {"width", {side}},
                             {"crop_area_min", {area_min}},
                             {"crop_area_max", {area_max}},
                             {"crop_ratio_min", {3.0 / 4}},
                             {"crop_ratio_max", {4.0 / 3}}}});
}

TEST(RandomArea, WindowsHaveTheWantedSharesAndRatios) {
  const Augmentation o = area_crop(100, 0.2, 0.5);
  Rng rng(5);
  double least_share = 1, most_share = 0, least_ratio = 9, most_ratio = 0;
  for (int i = 0; i < 400; ++i) {
    Sample s;
    s.image = ramp(200, 250);
    s = augment(std::move(s), o, rng);
    ASSERT_EQ(s.image.height, 100);
    ASSERT_EQ(s.image.width, 100);
    // From the middle of the first tenth to the middle of the last: 90 of 100 steps.
    auto span = [&](int c) {
      auto at = [&](int64_t k) { return static_cast<double>(s.image.row(k)[k * 3 + c]); };
      return (at(95) - at(5)) / 0.9;
    };
    double width = span(0), height = span(1);
    least_share = std::min(least_share, width * height / 50000);
    most_share = std::max(most_share, width * height / 50000);
    least_ratio = std::min(least_ratio, width / height);
    most_ratio = std::max(most_ratio, width / height);
  }
  // The span is accurate to one or two pixels in about a hundred.
  EXPECT_NEAR(least_share, 0.2, 0.015);
  EXPECT_NEAR(most_share, 0.5, 0.025);
  EXPECT_NEAR(least_ratio, 0.75, 0.04);
  EXPECT_NEAR(most_ratio, 4.0 / 3, 0.06);
}

TEST(RandomArea, FallsBackToTheCentreWhereNoWindowFits) {
  const Augmentation o = area_crop(30, 1, 1);  // of a ratio that the image does not have
  Sample s;
  s.image = ramp(30, 250);
  Rng rng(1);
  s = augment(std::move(s), o, rng);
  // A window of 40 x 30 in the middle: columns 105 to 144.
  EXPECT_NEAR(s.image.rgb[0], 105, 1);
  EXPECT_NEAR(s.image.rgb[29 * 3], 144, 1);
  EXPECT_EQ(s.image.row(29)[1], 29);
}

TEST(Erase, FillsOneRectangleWithNoise) {
  const Augmentation o = make_augmentation({{{"erase_probability", {0.4}}}});
  Rng rng(3);
  int erased = 0;
  double sum = 0, squares = 0, count = 0;
  for (int i = 0; i < 300; ++i) {
    Sample s;
    s.image = Image(40, 50);  // black
    s = augment(std::move(s), o, rng);
    int64_t top = 40, bottom = -1, left = 50, right = -1, changed = 0;
    for (int64_t y = 0; y < 40; ++y)
      for (int64_t x = 0; x < 50; ++x) {
        const uint8_t* p = s.image.row(y) + x * 3;
        if (p[0] + p[1] + p[2] == 0) continue;
        top = std::min(top, y), bottom = std::max(bottom, y);
        left = std::min(left, x), right = std::max(right, x);
        ++changed;
        sum += p[1];
        squares += p[1] * p[1];
        ++count;
      }
    if (changed == 0) continue;
    ++erased;
    // Hardly any pixel of the noise is black.
    EXPECT_GE(static_cast<double>(changed),
              0.9 * static_cast<double>((bottom - top + 1) * (right - left + 1)));
    EXPECT_GE(changed, 0.01 * 2000);
    EXPECT_LE(changed, 0.36 * 2000);
  }
  EXPECT_NEAR(erased / 300.0, 0.4, 0.1);  // 3.5 standard deviations
  // Green: mean 0.456, deviation 0.224; a byte cuts off 2 % at each end.
  EXPECT_NEAR(sum / count / 255, 0.456, 0.01);
  EXPECT_NEAR(std::sqrt(squares / count - sum / count * sum / count) / 255, 0.224, 0.012);
}

Batch noise_batch(int64_t count) {
  Batch b;
  b.images = Tensor::empty({count, 12, 16, 3}, DType::kU8);
  for (int64_t n = 0; n < count; ++n) {
    Image image = test::noise_image(12, 16, static_cast<uint64_t>(n));
    std::copy(image.rgb.begin(), image.rgb.end(), b.images.data<uint8_t>() + n * 12 * 16 * 3);
    Target t;
    t.height = 12;
    t.width = 16;
    t.label = n;
    b.targets.push_back(t);
  }
  return b;
}

TEST(Mix, MixupBlendsWithTheReverseOrder) {
  for (int64_t count : {4, 5}) {  // of five, the middle one stays
    const Batch original = noise_batch(count);
    Batch b = noise_batch(count);
    Rng rng(11);
    mix_batch(b, {.mixup_alpha = 0.8}, rng);
    EXPECT_GT(b.lambda, 0);
    EXPECT_LT(b.lambda, 1);
    auto own = original.images.to_vector<uint8_t>(), mixed = b.images.to_vector<uint8_t>();
    const size_t pixels = 12 * 16 * 3;
    for (size_t i = 0; i < mixed.size(); ++i) {
      size_t n = i / pixels, partner = (static_cast<size_t>(count) - 1 - n) * pixels + i % pixels;
      double wanted = b.lambda * own[i] + (1 - b.lambda) * own[partner];
      EXPECT_LE(std::abs(mixed[i] - wanted), 0.5 + 1e-9);
    }
    mix_batch(b, {}, rng);
    EXPECT_EQ(b.lambda, 1);
  }
}

TEST(Mix, CutMixSwapsARectangleAndSharesByItsArea) {
  const Batch original = noise_batch(4);
  const auto own = original.images.to_vector<uint8_t>();
  Rng rng(2);
  double total = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Batch b = noise_batch(4);
    mix_batch(b, {.cutmix_alpha = 1}, rng);
    auto mixed = b.images.to_vector<uint8_t>();
    const size_t pixels = 12 * 16;
    int64_t swapped = 0;
    for (size_t p = 0; p < 4 * pixels; ++p) {
      size_t n = p / pixels, partner = ((3 - n) * pixels + p % pixels) * 3;
      bool is_own = std::equal(&own[p * 3], &own[p * 3] + 3, &mixed[p * 3]);
      bool is_partner = std::equal(&own[partner], &own[partner] + 3, &mixed[p * 3]);
      EXPECT_TRUE(is_own || is_partner);
      swapped += !is_own;
    }
    EXPECT_DOUBLE_EQ(b.lambda, 1 - static_cast<double>(swapped) / (4 * pixels));
    total += b.lambda;
  }
  EXPECT_GT(total / 200, 0.5);  // windows at the border are cut, so more than half stays
  EXPECT_LT(total / 200, 0.8);
}

TEST(Mix, HappensWithItsProbability) {
  Rng rng(4);
  int mixed = 0;
  for (int i = 0; i < 400; ++i) {
    Batch b = noise_batch(2);
    mix_batch(b, {.probability = 0.3, .mixup_alpha = 1}, rng);
    mixed += b.lambda < 1;
  }
  EXPECT_NEAR(mixed / 400.0, 0.3, 0.08);
  Batch b = noise_batch(2);
  mix_batch(b, {}, rng);
  EXPECT_EQ(b.lambda, 1);
}

TEST(Mix, BetaHasItsMoments) {
  for (double alpha : {0.2, 0.8, 1.0, 3.0}) {
    Rng rng(8);
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      double x = draw_beta(alpha, rng);
      ASSERT_TRUE(x >= 0 && x <= 1);
      sum += x;
      squares += x * x;
    }
    double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.015) << alpha;  // four standard deviations of the mean at most
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
  }
}

}  // namespace
}  // namespace saccade
