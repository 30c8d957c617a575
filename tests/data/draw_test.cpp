#include "data/images/draw.h"

#include <gtest/gtest.h>

#include <limits>

namespace saccade {
namespace {

TEST(Draw, FramesTheBoxInItsColour) {
  Image image(100, 120);
  draw_boxes(image, {{20, 30, 60, 70, 4, -1}}, {});
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

TEST(Draw, TextStaysInsideItsMeasure) {
  for (int64_t scale : {1, 3}) {
    std::string text = "Wgj|@ 0.97 \xC3\xA9";
    Image image(80, 400);
    draw_text(image, 5, 7, text, {255, 255, 255}, scale);
    int64_t left = 400, right = -1, top = 80, bottom = -1, lit = 0;
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x) {
        if (image.row(y)[x * 3] == 0) continue;
        ++lit;
        left = std::min(left, x);
        right = std::max(right, x);
        top = std::min(top, y);
        bottom = std::max(bottom, y);
      }
    }
    EXPECT_GT(lit, 100 * scale * scale);
    EXPECT_GE(left, 5);
    EXPECT_LT(right, 5 + text_width(text, scale));
    EXPECT_GE(top, 7 - scale);
    EXPECT_LE(bottom, 7 + text_height(scale) + 2 * scale);
  }
}

TEST(Draw, SurvivesWhatANetworkMayPredict) {
  double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Image image(10, 10);
  draw_boxes(image, {{nan, 0, inf, 5, 1, 0.5}, {-1e30, -5, 1e30, 50, -7, nan}, {8, 8, 2, 2, 1 << 30, 1}, {}},
             {"a"});
  draw_points(image, {{nan, 1, 1, 0}, {1e30, 1, 1, 0}, {-3, -3, 7, 0}, {5, 5, nan, 1}}, 2);
  Image tiny(1, 1);
  draw_boxes(tiny, {{0, 0, 1, 1, 0, 0.5}}, {"a name longer than the picture"});
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
