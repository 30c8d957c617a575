// To add a case: draw coloured blocks with make_sample(), run the step, and let expect_bounds() look for each
// colour.
#include "data/augment/augment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/error.h"
#include "data/augment/transforms.h"

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
    const Box box{std::floor(p[0] * w), std::floor(p[1] * h), std::floor(p[2] * w), std::floor(p[3] * h)};
    for (auto y = static_cast<int64_t>(box.y1); y < static_cast<int64_t>(box.y2); ++y) {
      for (auto x = static_cast<int64_t>(box.x1); x < static_cast<int64_t>(box.x2); ++x) {
        for (int c = 0; c < 3; ++c) s.image.row(y)[x * 3 + c] = kColors[i][c];
      }
    }
    s.instances.push_back({i, box, box.area()});
  }
  return s;
}

// Expects every colour in the picture to have its box, every box its colour, and the two to agree to
// `tolerance` pixels. The edge of a resized block is where its brightness passes one half.
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
    const Box* box = nullptr;
    for (const Instance& instance : s.instances) {
      if (instance.label == i) box = &instance.box;
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
    double area = s.instances[0].area;
    resize(s, h, w);
    expect_bounds(s, 0.75, fmt::format("{} x {}", w, h));
    EXPECT_NEAR(s.instances[0].area, area * static_cast<double>(h * w) / (60 * 83), 1e-9);
  }
}

TEST(Augment, BoxesFollowEveryPipeline) {
  const std::map<std::string, std::vector<double>> flips{
      {"horizontal_flip", {0.5}}, {"vertical_flip", {0.5}}, {"rotate90", {0.5}}};
  const std::map<std::string, std::vector<double>> crops{
      {"crop_probability", {0.5}}, {"crop_short_sides", {50, 70}}, {"crop_min", {30}}, {"crop_max", {60}}};
  const std::map<std::string, std::vector<double>> fixed{{"height", {56}}, {"width", {72}}};
  std::map<std::string, AugmentFields> pipelines{
      {"no resizing", {crops}},
      {"short side", {{{"short_sides", {40, 64}}, {"long_side", {90}}}}},
      {"fixed", {fixed}},
      {"jitter", {{{"scale_min", {0.5}}, {"scale_max", {2}}, {"aspect_jitter", {1.3}}}}}};
  pipelines["short side"].values.insert(crops.begin(), crops.end());
  pipelines["jitter"].values.insert(fixed.begin(), fixed.end());
  pipelines["crop, then fixed"] = {{{"stretch_crop", {0.5}},
                                    {"crop_short_sides", {50, 70}},
                                    {"crop_min", {30}},
                                    {"crop_max", {60}},
                                    {"height", {56}},
                                    {"width", {72}}}};
  for (auto& [name, fields] : pipelines) {
    fields.values.insert(flips.begin(), flips.end());
    const Augmentation steps = make_augmentation(fields);
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Rng rng(seed), again(seed);
      Sample s = augment(make_sample(60, 83), steps, rng);
      // When a crop is resized, two roundings of half a pixel follow each other.
      expect_bounds(s, 1.6, fmt::format("{} seed {}", name, seed));
      EXPECT_TRUE(augment(make_sample(60, 83), steps, again).image == s.image);
      if (name == "fixed") {
        EXPECT_EQ(s.image.height, 56);
        EXPECT_EQ(s.image.width, 72);
      }
      if (name == "jitter") {
        EXPECT_EQ(s.canvas_height, 56);
        EXPECT_LE(s.image.height, 56);
        EXPECT_LE(s.image.width, 72);
      }
    }
  }
}

TEST(Augment, ACanvasThatCountsAsImageIsFull) {
  const Augmentation steps = make_augmentation({{{"height", {56}},
                                                 {"width", {72}},
                                                 {"scale_min", {0.5}},
                                                 {"scale_max", {2}},
                                                 {"aspect_jitter", {1}},
                                                 {"pad_as_image", {1}}}});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    Sample s = augment(make_sample(60, 83), steps, rng);
    EXPECT_EQ(s.image.height, 56);
    EXPECT_EQ(s.image.width, 72);
    for (const Instance& i : s.instances) EXPECT_LE(i.box.x2, 72);
  }
}

TEST(Augment, CropDropsWhatIsNotLeft) {
  Sample s = make_sample(60, 83);
  crop(s, 0, 0, 20, 26);
  ASSERT_EQ(s.instances.size(), 1u);
  EXPECT_EQ(s.instances[0].label, 0);
  s = make_sample(60, 83);
  crop(s, 0, 0, 60, 48);  // cuts the green block down to 7 of 37 columns
  EXPECT_EQ(s.instances.size(), 3u);
  s = make_sample(60, 83);
  crop(s, 0, 0, 60, 48, 0.3);
  EXPECT_EQ(s.instances.size(), 2u);
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
                        {100, 145, 689, 1000, 689, 999},
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

TEST(Augment, FieldsAreChecked) {
  auto refused = [](std::map<std::string, std::vector<double>> values) {
    EXPECT_THROW(make_augmentation({std::move(values)}), Error);
  };
  refused({{"vertical_flip", {-0.1}}});
  refused({{"height", {56}}});
  refused({{"short_sides", {0}}});
  refused({{"short_sides", {40}}, {"long_side", {-1}}});
  refused({{"crop_probability", {0.5}}, {"crop_min", {700}}, {"crop_max", {600}}});
  refused({{"color_probability", {1}}, {"hue", {0.7}}});
  EXPECT_TRUE(make_augmentation({}).empty());
  EXPECT_THROW(make_augmentation({.values = {{"height", {0}}}, .complete = true}), Error);
}

TEST(Augment, StepsRunInTheirOrder) {
  AugmentFields all{{{"horizontal_flip", {1}},
                     {"vertical_flip", {0.5}},
                     {"rotate90", {0.1}},
                     {"crop_probability", {1}},
                     {"crop_min", {1}},
                     {"crop_max", {2}},
                     {"short_sides", {5}},
                     {"color_probability", {1}},
                     {"hue", {0.1}},
                     {"erase_probability", {1}}}};
  std::vector<std::string> names;
  for (const AugmentStep& step : make_augmentation(all)) names.push_back(step.name);
  EXPECT_EQ(names, (std::vector<std::string>{"horizontal_flip", "vertical_flip", "rotate90", "size_crop",
                                             "short_side_resize", "color_jitter", "random_erasing"}));
}

}  // namespace
}  // namespace saccade
