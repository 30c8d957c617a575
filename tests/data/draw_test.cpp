#include "data/images/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/tensor/error.h"

namespace saccade {
namespace {

TEST(Draw, FramesTheBoxInItsColour) {
  Image image(100, 120);
  draw_boxes(image, {{.label = 4, .box = {20, 30, 60, 70}, .score = -1}}, {});
  Rgb color = color_of_label(4);
  auto at = [&](int64_t x, int64_t y) {
    const uint8_t* p = image.row(y) + x * 3;
    return Rgb{p[0], p[1], p[2]};
  };
  for (auto [x, y] : {std::pair<int64_t, int64_t>{59, 50}, {20, 50}, {40, 69}}) EXPECT_EQ(at(x, y), color);
  EXPECT_EQ(at(61, 50), Rgb{});
  EXPECT_EQ(at(40, 50), Rgb{});
  EXPECT_EQ(at(100, 90), Rgb{});
}

// The rows and columns that hold anything but black.
struct Lit {
  int64_t left = 1 << 20, right = -1, top = 1 << 20, bottom = -1, count = 0, grey = 0;
  explicit Lit(const Image& image) {
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x) {
        const uint8_t value = image.row(y)[x * 3];
        if (value == 0) continue;
        ++count;
        grey += value < 255;
        left = std::min(left, x);
        right = std::max(right, x);
        top = std::min(top, y);
        bottom = std::max(bottom, y);
      }
  }
};

TEST(Draw, TextStaysInsideItsMeasureAndIsSmooth) {
  for (int64_t size : {10, 31}) {
    const std::string text = "Wgj|@ 0.97 größe";
    Image image(80, 600);
    draw_text(image, 5, 7, text, {255, 255, 255}, size);
    const Lit lit(image);
    EXPECT_GT(lit.count, 2 * size * size);
    EXPECT_GT(lit.grey, lit.count / 10);
    EXPECT_GE(lit.left, 4);
    EXPECT_LE(lit.right, 5 + text_width(text, size));
    EXPECT_GE(lit.top, 7 - 1);
    EXPECT_LE(lit.bottom, 7 + size + 1);
    EXPECT_GE(lit.bottom - lit.top, size - 2);
  }
}

TEST(Draw, LettersOutsideAsciiAreDrawn) {
  auto drawn = [](const std::string& text) {
    Image image(40, 200);
    draw_text(image, 0, 5, text, {255, 255, 255}, 20);
    return std::vector<uint8_t>(image.row(0), image.row(0) + image.height * image.width * 3);
  };
  EXPECT_NE(drawn("größe"), drawn("gr??e"));
  EXPECT_NE(drawn("жук"), drawn("???"));
  // What the font lacks, and invalid UTF-8: a byte, a cut character, an overlong one, one past the last.
  EXPECT_EQ(drawn("\U000E0001"), drawn("?"));
  EXPECT_EQ(drawn("\xFF"), drawn("?"));
  EXPECT_EQ(drawn("a\xC3"), drawn("a?"));
  EXPECT_EQ(drawn("\xC0\xAF"), drawn("??"));
  EXPECT_EQ(drawn("\xF5\x80\x80\x80"), drawn("????"));
}

TEST(Draw, SurvivesWhatANetworkMayPredict) {
  double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Image image(10, 10);
  draw_boxes(image,
             {{.label = 1, .box = {nan, 0, inf, 5}, .score = 0.5},
              {.label = -7, .box = {-1e30, -5, 1e30, 50}, .score = nan},
              {.label = 1 << 30, .box = {8, 8, 2, 2}},
              {}},
             {"a"});
  draw_points(image, {{nan, 1, 1, 0}, {1e30, 1, 1, 0}, {-3, -3, 7, 0}, {5, 5, nan, 1}}, 2);
  Image tiny(1, 1);
  draw_boxes(tiny, {{.box = {0, 0, 1, 1}, .score = 0.5}}, {"a name longer than the picture"});
}

TEST(Draw, MasksShineThroughAndHaveAnOutline) {
  const ImageSize size{120, 160};
  const std::vector<double> corners{60, 50, 90, 50, 90, 80, 60, 80};
  const auto mask = std::make_shared<const Mask>(Mask::from_polygons(size, {{corners}}));
  ASSERT_EQ(mask->box(), (Box{60, 50, 90, 80}));
  const Rgb color = color_of_label(4);
  auto expect_at = [&](const Image& image, int64_t x, int64_t y, double part) {
    for (int c = 0; c < 3; ++c)
      EXPECT_NEAR(image.row(y)[3 * x + c], part * color[static_cast<size_t>(c)], 0.51) << x << " " << y;
  };
  Image image(size.height, size.width);
  draw_mask(image, *mask, color);
  for (auto [x, y] : {std::pair<int64_t, int64_t>{60, 50}, {89, 50}, {60, 79}, {89, 79}, {70, 50}, {89, 66}})
    expect_at(image, x, y, 1);
  for (auto [x, y] : {std::pair<int64_t, int64_t>{61, 51}, {88, 78}, {75, 65}}) expect_at(image, x, y, 0.4);
  for (auto [x, y] : {std::pair<int64_t, int64_t>{59, 60}, {90, 60}, {70, 49}, {70, 80}})
    expect_at(image, x, y, 0);
  // With its box, the frame and the name are drawn over the mask.
  Image boxed(size.height, size.width);
  draw_boxes(boxed, {{.label = 4, .box = {20, 40, 140, 100}, .score = -1, .mask = mask}}, {});
  expect_at(boxed, 75, 65, 0.4);
  expect_at(boxed, 20, 70, 1);
  Image other(160, 120);
  EXPECT_THROW(draw_mask(other, *mask, color), Error);
  draw_mask(other, Mask::from_polygons({160, 120}, {}), color);
  EXPECT_EQ(std::count(other.rgb.begin(), other.rgb.end(), 0), std::ssize(other.rgb));
}

// All pixels keep their colours; the alpha channel, which readers of colours drop, says which are opaque.
TEST(Draw, CutsOutAlongAMask) {
  Image image(5, 4);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(7 * i);
  const Mask mask = Mask::from_box({5, 4}, {1, 1, 3, 4});
  const std::vector<uint8_t> png = encode_png(image, mask);
  ASSERT_GT(png.size(), 26U);
  EXPECT_EQ(png[25], 6);  // colours and alpha
  EXPECT_EQ(decode_image(png, "f"), image);
  EXPECT_NE(png, encode_png(image, Mask::from_box({5, 4}, {1, 1, 3, 3})));
  EXPECT_THROW(encode_png(image, Mask::from_box({4, 5}, {1, 1, 3, 4})), Error);
}

TEST(Draw, PointsAreBlendedByWeight) {
  Image image(11, 11);
  draw_points(image, {{5.5, 5.5, 0.5, 2}}, 3);
  Rgb color = color_of_label(2);
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(image.row(5)[15 + c], color[static_cast<size_t>(c)] / 2.0, 1);
  EXPECT_EQ(image.row(0)[0], 0);
}

TEST(Draw, ColoursOfTheFirstLabelsDiffer) {
  for (int64_t a = 0; a < 12; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      int difference = 0;
      for (size_t c = 0; c < 3; ++c) difference += std::abs(color_of_label(a)[c] - color_of_label(b)[c]);
      EXPECT_GT(difference, 40) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace saccade
