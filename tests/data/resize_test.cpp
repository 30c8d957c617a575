#include "data/images/resize.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "data/augment/augment.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

const std::string kResizeGolden = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/resize/";

TEST(Resize, EqualsPillowToTheByte) {
  std::ifstream cases(kResizeGolden + "cases.txt");
  ASSERT_TRUE(cases) << kResizeGolden;
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    int64_t h = 0, w = 0, oh = 0, ow = 0, seed = 0;
    uint64_t hash = 0;
    std::string filter;
    in >> filter >> h >> w >> oh >> ow >> seed >> std::hex >> hash;
    ASSERT_TRUE(in) << line;
    Image out = resize_image(test::picture(h, w, seed), oh, ow,
                             filter == "bicubic" ? Filter::kBicubic : Filter::kBilinear);
    EXPECT_EQ(out.height, oh);
    EXPECT_EQ(out.width, ow);
    if (count++ == 0) {
      EXPECT_EQ(out.rgb, read_file(kResizeGolden + "small.bin", kTextFile));
    }
    EXPECT_EQ(hash_name(test::text_of(out)), hash) << line;
  }
  EXPECT_EQ(count, 36);
}

TEST(Resize, TheCentreOfClassifiersEqualsTorchvisionToTheByte) {
  std::ifstream cases(kResizeGolden + "center.txt");
  ASSERT_TRUE(cases) << kResizeGolden;
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    int64_t h = 0, w = 0, seed = 0;
    uint64_t hash = 0;
    std::string filter;
    double side = 0, part = 0;
    in >> filter >> h >> w >> side >> part >> seed >> std::hex >> hash;
    ASSERT_TRUE(in) << line;
    const Augmentation center =
        make_augmentation({.values = {{"height", {side}}, {"width", {side}}, {"val_crop_pct", {part}}},
                           .filter = filter == "bicubic" ? Filter::kBicubic : Filter::kBilinear});
    Sample sample;
    sample.image = test::picture(h, w, seed);
    Rng none(0);
    EXPECT_EQ(hash_name(test::text_of(augment(sample, center, none).image)), hash) << line;
    ++count;
  }
  EXPECT_EQ(count, 12);
}

// Equals torch's interpolate except for two roundings to bytes: images that shrink are not smoothed.
TEST(Resize, FourPixelsAreInterpolatedWithoutSmoothing) {
  const Image image = test::picture(40, 50, 3);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{16, 20}, {90, 31}, {40, 50}}) {
    const Image out = resize_image(image, height, width, Filter::kFourPixels);
    auto place = [](int64_t i, int64_t from, int64_t to) {
      return std::max(
          (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5, 0.0);
    };
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const double v = place(y, 40, height), u = place(x, 50, width);
        const auto top = static_cast<int64_t>(v), left = static_cast<int64_t>(u);
        const double down = v - static_cast<double>(top), right = u - static_cast<double>(left);
        for (int64_t c = 0; c < 3; ++c) {
          auto at = [&](int64_t row, int64_t column) {
            return static_cast<double>(
                image.row(std::min<int64_t>(row, 39))[std::min<int64_t>(column, 49) * 3 + c]);
          };
          const double exact = (1 - down) * ((1 - right) * at(top, left) + right * at(top, left + 1)) +
                               down * ((1 - right) * at(top + 1, left) + right * at(top + 1, left + 1));
          ASSERT_NEAR(out.row(y)[x * 3 + c], exact, 1.01) << y << " " << x;
        }
      }
  }
}

TEST(Resize, KeepsAConstantAndRefusesNothingSmall) {
  Image image(7, 9);
  std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{255});
  for (Filter filter : {Filter::kBilinear, Filter::kBicubic, Filter::kFourPixels})
    for (uint8_t v : resize_image(image, 100, 3, filter).rgb) EXPECT_EQ(v, 255);
  EXPECT_THROW(resize_image(image, 0, 3), Error);
}

}  // namespace
}  // namespace saccade
