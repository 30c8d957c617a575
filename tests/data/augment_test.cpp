// To add a case: draw coloured blocks with make_sample(), run the step, and let expect_bounds() look for each
// colour.
#include "data/augment/augment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr uint8_t kColors[3][3] = {{250, 0, 0}, {0, 250, 0}, {0, 0, 250}};

// Three blocks on black, each of its own pure colour, far enough apart that resizing does not mix them.
Sample make_sample(int64_t height, int64_t width) {
  Sample s;
  s.image = Image(height, width);
  double h = static_cast<double>(height), w = static_cast<double>(width);
  const double places[3][4] = {{0.05, 0.1, 0.3, 0.35}, {0.5, 0.08, 0.95, 0.4}, {0.3, 0.6, 0.62, 0.93}};
  for (int64_t i = 0; i < 3; ++i) {
    const double* p = places[i];
    SampleBox box{
        std::floor(p[0] * w), std::floor(p[1] * h), std::floor(p[2] * w), std::floor(p[3] * h), i, 0};
    box.area = (box.x2 - box.x1) * (box.y2 - box.y1);
    for (auto y = static_cast<int64_t>(box.y1); y < static_cast<int64_t>(box.y2); ++y) {
      for (auto x = static_cast<int64_t>(box.x1); x < static_cast<int64_t>(box.x2); ++x) {
        for (int c = 0; c < 3; ++c) s.image.row(y)[x * 3 + c] = kColors[i][c];
      }
    }
    s.boxes.push_back(box);
  }
  return s;
}

// Every colour in the picture has its box, every box its colour, and the two agree to `tolerance` pixels: the
// edge of a resized block is where its brightness passes one half.
void expect_bounds(const Sample& s, double tolerance, const std::string& what) {
  for (int64_t i = 0; i < 3; ++i) {
    int64_t x1 = s.image.width, y1 = s.image.height, x2 = -1, y2 = -1;
    for (int64_t y = 0; y < s.image.height; ++y) {
      for (int64_t x = 0; x < s.image.width; ++x) {
        const uint8_t* p = s.image.row(y) + x * 3;
        int own = p[i], others = std::max(p[(i + 1) % 3], p[(i + 2) % 3]);
        if (own < 125 || others > 60) continue;
        x1 = std::min(x1, x);
        x2 = std::max(x2, x + 1);
        y1 = std::min(y1, y);
        y2 = std::max(y2, y + 1);
      }
    }
    const SampleBox* box = nullptr;
    for (const SampleBox& b : s.boxes) {
      if (b.label == i) box = &b;
    }
    if (x2 < 0) {
      // A sliver of a pixel may keep its box although no pixel is bright.
      if (box) {
        EXPECT_LE(std::min(box->x2 - box->x1, box->y2 - box->y1), tolerance) << what;
      }
      continue;
    }
    ASSERT_NE(box, nullptr) << what << ": no box for colour " << i;
    EXPECT_NEAR(box->x1, static_cast<double>(x1), tolerance) << what;
    EXPECT_NEAR(box->y1, static_cast<double>(y1), tolerance) << what;
    EXPECT_NEAR(box->x2, static_cast<double>(x2), tolerance) << what;
    EXPECT_NEAR(box->y2, static_cast<double>(y2), tolerance) << what;
    EXPECT_GE(box->x1, 0);
    EXPECT_LE(box->x2, static_cast<double>(s.image.width) + 1e-9);
    EXPECT_LE(box->y2, static_cast<double>(s.image.height) + 1e-9);
  }
}

TEST(Augment, BoxesFollowTheExactSteps) {
  const Sample original = make_sample(60, 83);
  expect_bounds(original, 0, "original");
  Sample s = original;
  flip_horizontal(s);
  expect_bounds(s, 0, "horizontal flip");
  flip_vertical(s);
  expect_bounds(s, 0, "both flips");
  for (int turns = 0; turns < 4; ++turns) {
    s = original;
    rotate90(s, turns);
    expect_bounds(s, 0, fmt::format("{} turns", turns));
    EXPECT_EQ(s.image.height, turns % 2 ? 83 : 60);
    rotate90(s, 4 - turns);
    EXPECT_TRUE(s.image == original.image);
  }
  s = original;
  crop(s, 10, 20, 30, 41);
  expect_bounds(s, 0, "crop");
  s = original;
  place_on_canvas(s, 100, 110, 17, 21);
  Image grey = s.image;
  for (size_t i = 0; i < grey.rgb.size(); i += 3) {
    if (grey.rgb[i] == 124 && grey.rgb[i + 1] == 116) grey.rgb[i] = grey.rgb[i + 1] = grey.rgb[i + 2] = 0;
  }
  s.image = grey;
  expect_bounds(s, 0, "canvas");
}

TEST(Augment, BoxesFollowResizingToAPixel) {
  for (auto [h, w] : {std::pair<int64_t, int64_t>{30, 41}, {120, 166}, {90, 50}, {61, 200}}) {
    Sample s = make_sample(60, 83);
    double area = s.boxes[0].area;
    resize(s, h, w);
    expect_bounds(s, 0.75, fmt::format("{} x {}", w, h));
    EXPECT_NEAR(s.boxes[0].area, area * static_cast<double>(h * w) / (60 * 83), 1e-9);
  }
}

TEST(Augment, BoxesFollowEveryPipeline) {
  AugmentOptions base;
  base.horizontal_flip = base.vertical_flip = base.rotation90 = base.crop_probability = 0.5;
  base.crop_short_sides = {50, 70};
  base.crop_min = 30;
  base.crop_max = 60;
  base.short_sides = {40, 64};
  base.max_long_side = 90;
  base.fixed_width = 72;
  base.fixed_height = 56;
  using Resize = AugmentOptions::Resize;
  for (Resize mode : {Resize::kNone, Resize::kShortSide, Resize::kFixed, Resize::kScaleJitter}) {
    AugmentOptions options = base;
    options.resize = mode;
    options.max_stretch = 1.3;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Rng rng(seed), again(seed);
      Sample s = augment(make_sample(60, 83), options, rng);
      // Two roundings of half a pixel follow each other when a crop is resized.
      expect_bounds(s, 1.6, fmt::format("mode {} seed {}", static_cast<int>(mode), seed));
      EXPECT_TRUE(augment(make_sample(60, 83), options, again).image == s.image);
      if (mode == Resize::kFixed) {
        EXPECT_EQ(s.image.height, 56);
        EXPECT_EQ(s.image.width, 72);
      }
      if (mode == Resize::kScaleJitter) {
        EXPECT_EQ(s.canvas_height, 56);
        EXPECT_LE(s.image.height, 56);
        EXPECT_LE(s.image.width, 72);
      }
    }
  }
}

TEST(Augment, ACanvasThatCountsAsImageIsFull) {
  AugmentOptions options;
  options.resize = AugmentOptions::Resize::kScaleJitter;
  options.fixed_width = 72;
  options.fixed_height = 56;
  options.pad_as_image = true;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    Sample s = augment(make_sample(60, 83), options, rng);
    EXPECT_EQ(s.image.height, 56);
    EXPECT_EQ(s.image.width, 72);
    for (const SampleBox& b : s.boxes) EXPECT_LE(b.x2, 72);
  }
}

TEST(Augment, CropDropsWhatIsNotLeft) {
  Sample s = make_sample(60, 83);
  crop(s, 0, 0, 20, 26);
  ASSERT_EQ(s.boxes.size(), 1u);
  EXPECT_EQ(s.boxes[0].label, 0);
  s = make_sample(60, 83);
  crop(s, 0, 0, 60, 48);  // cuts the green block down to 7 of 37 columns
  EXPECT_EQ(s.boxes.size(), 3u);
  s = make_sample(60, 83);
  crop(s, 0, 0, 60, 48, 0.3);
  EXPECT_EQ(s.boxes.size(), 2u);
  EXPECT_THROW(crop(s, 50, 0, 20, 20), Error);
}

// Values from get_size_with_aspect_ratio of the official code (run in Python).
TEST(Augment, SizeRuleIsThatOfDetr) {
  struct Case {
    int64_t h, w, side, limit, out_h, out_w;
  };
  for (const Case& c : {Case{480, 640, 800, 1333, 800, 1066},
                        {640, 480, 800, 1333, 1066, 800},
                        {427, 640, 800, 1333, 800, 1199},
                        {333, 1000, 800, 1333, 444, 1333},
                        {100, 900, 480, 1333, 148, 1332},
                        {800, 1066, 800, 1333, 800, 1066},
                        {500, 375, 600, 0, 800, 600},
                        {3, 7, 5, 0, 5, 11},
                        {10, 10, 7, 0, 7, 7}}) {
    ImageSize size = detr_size(c.h, c.w, c.side, c.limit);
    EXPECT_EQ(size.height, c.out_h) << c.h << "x" << c.w;
    EXPECT_EQ(size.width, c.out_w) << c.h << "x" << c.w;
  }
}

TEST(Augment, ColoursChangeAsTheyShould) {
  Image image(1, 2);
  image.rgb = {100, 150, 200, 40, 40, 40};
  Image same = image;
  change_color(same, 1, 1, 1, 0);
  EXPECT_TRUE(same == image);
  Image dark = image;
  change_color(dark, 0.5, 1, 1, 0);
  EXPECT_EQ(dark.rgb, (std::vector<uint8_t>{50, 75, 100, 20, 20, 20}));
  Image gray = image;
  change_color(gray, 1, 1, 0, 0);
  EXPECT_EQ(gray.rgb, (std::vector<uint8_t>{141, 141, 141, 40, 40, 40}));
  Image flat = image;
  change_color(flat, 1, 0, 1, 0);  // contrast 0: the mean grey, (140.75 + 40) / 2
  for (uint8_t v : flat.rgb) EXPECT_NEAR(v, 90, 1);
  Image turned = image;
  change_color(turned, 1, 1, 1, 0.5);  // the opposite hue, same luma
  EXPECT_GT(turned.rgb[0], turned.rgb[2]);
  EXPECT_NEAR(0.299 * turned.rgb[0] + 0.587 * turned.rgb[1] + 0.114 * turned.rgb[2], 140.75, 2);
  EXPECT_NEAR(turned.rgb[3], 40, 1);
}

TEST(Augment, OptionsAreChecked) {
  auto refused = [](auto change) {
    AugmentOptions o;
    change(o);
    EXPECT_THROW(check_augment_options(o), Error);
  };
  refused([](auto& o) { o.vertical_flip = -0.1; });
  refused([](auto& o) { o.resize = AugmentOptions::Resize::kShortSide; });
  refused([](auto& o) { o.resize = AugmentOptions::Resize::kFixed; });
  refused([](auto& o) { o.short_sides = {0}; });
  refused([](auto& o) { o.crop_probability = 0.5, o.crop_min = 700; });
  refused([](auto& o) { o.hue = 0.7; });
  check_augment_options(AugmentOptions{});
}

}  // namespace
}  // namespace saccade
