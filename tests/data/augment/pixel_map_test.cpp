// Tests that masks, boxes, areas and label maps follow the pixels. To add a step: a row in kSteps.
#include "data/augment/pixel_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/tensor/philox.h"
#include "data/augment/transforms.h"

namespace saccade {
namespace {

constexpr int64_t kHeight = 40, kWidth = 50;

// Every pixel has its own colour, which is not black; the label map holds the mask.
Sample make_sample(const Mask& mask) {
  Sample s{.image = Image(mask.size().height, mask.size().width), .instances = {}};
  for (int64_t y = 0; y < s.image.height; ++y)
    for (int64_t x = 0; x < s.image.width; ++x) {
      const int64_t rgb[3] = {x, y, 255};
      std::copy_n(rgb, 3, s.image.row(y) + x * 3);
    }
  s.label_map.size = mask.size();
  const std::vector<uint8_t> bits = mask.bitmap();
  s.label_map.values.assign(bits.begin(), bits.end());
  s.instances.push_back({.label = 3,
                         .box = mask.box(),
                         .area = static_cast<double>(mask.area()),
                         .mask = std::make_shared<const Mask>(mask)});
  return s;
}

Mask polygon(const std::vector<double>& points) { return Mask::from_polygons({kHeight, kWidth}, {{points}}); }

struct Step {
  const char* name;
  std::function<void(Sample&)> apply;
  const char* mask;  // as pycocotools 2.0 writes what numpy or Pillow make of the polygon in EqualPycocotools
  int64_t area;
};
const Step kSteps[] = {
    {"horizontal flip", [](Sample& s) { flip_horizontal(s); },
     "Qh01W13L4M2N3M3M3L4M3M000O0100O100O010O1000O01M3K5K4L5KZ6", 476},
    {"vertical flip", [](Sample& s) { flip_vertical(s); },
     "[72Q15K4L5K5M3O01000O10O0100O100O010003M3L4M3M3M2N3L4Mjf0", 476},
    {"a quarter turn", [](Sample& s) { rotate90(s, 1); },
     "Q62\\14L3L5L4K5N21N10001O000O2O001O000O2O00001O0O101O0O1M4M2N2NU:", 476},
    {"three quarter turns", [](Sample& s) { rotate90(s, 3); },
     "b;3]12N2N3L3O101O0O101O00001N10001O001N10001O000O2ON2K5L4K4M4Le4", 476},
    {"crop", [](Sample& s) { crop(s, 8, 10, 20, 30); }, "0[91UG3M3M3N3L3Mf5", 351},
    {"canvas", [](Sample& s) { place_on_canvas(s, 60, 70, 11, 17, kBlack); },
     "fY12j15L4K5K5K3N0O000010O01O001O010O0000M4L3M3M3M3N3L3MgX1", 476},
    {"resize", [](Sample& s) { resize(s, 31, 73); },
     "k62m0004M3L003M4L003NO00000001O01O01O00001O00001O00000000M4M200N2M3N200N3M200Noj0", 541},
};

TEST(PixelMap, MasksEqualPycocotools) {
  const Mask mask = polygon({5.2, 3.1, 30.7, 8.9, 22.4, 33.3, 9.9, 28.0});
  EXPECT_EQ(mask.text(), "[62V15L4K5K5K3N0O000010O01O001O010O0000M4L3M3M3M3N3L3Mbg0");
  for (const Step& step : kSteps) {
    SCOPED_TRACE(step.name);
    Sample s = make_sample(mask);
    step.apply(s);
    ASSERT_EQ(s.instances.size(), 1u);
    const Instance& i = s.instances[0];
    EXPECT_EQ(i.label, 3);
    EXPECT_EQ(i.mask->size(), (ImageSize{s.image.height, s.image.width}));
    EXPECT_EQ(i.mask->text(), step.mask);
    EXPECT_EQ(i.area, step.area);
  }
}

// Returns, by its colour, which pixel of the old image a pixel of the new one was; nothing for the canvas.
std::optional<size_t> origin_of(const uint8_t* rgb) {
  if (rgb[2] == 0) return std::nullopt;
  return static_cast<size_t>(rgb[1] * kWidth + rgb[0]);
}

void expect_that_all_follows(const Sample& s, const Sample& original) {
  std::vector<uint8_t> expected;
  ASSERT_EQ(s.label_map.size, (ImageSize{s.image.height, s.image.width}));
  for (size_t i = 0; i < s.label_map.values.size(); ++i) {
    const auto from = origin_of(&s.image.rgb[3 * i]);
    EXPECT_EQ(s.label_map.values[i], from ? original.label_map.values[*from] : LabelMap::kIgnored);
    expected.push_back(from && original.label_map.values[*from]);
  }
  const Mask mask = Mask::from_bitmap(s.label_map.size, expected);
  ASSERT_EQ(s.instances.size(), mask.area() > 0 ? 1u : 0u);
  if (mask.area() == 0) return;
  EXPECT_EQ(*s.instances[0].mask, mask);
  EXPECT_EQ(s.instances[0].area, mask.area());
  const Box outer = s.instances[0].box, inner = mask.box();
  // Half of a pixel may be outside a rotated box while its middle is inside.
  EXPECT_LE(outer.x1, inner.x1 + 0.5);
  EXPECT_LE(outer.y1, inner.y1 + 0.5);
  EXPECT_GE(outer.x2, inner.x2 - 0.5);
  EXPECT_GE(outer.y2, inner.y2 - 0.5);
}

Mask random_mask(Rng& rng) {
  std::vector<double> points;
  for (int i = 0; i < 10; ++i) points.push_back(rng.uniform(-3, i % 2 ? kHeight + 3 : kWidth + 3));
  return polygon(points);
}

TEST(PixelMap, EverythingFollowsThePixels) {
  Rng rng(1);
  int shown = 0;
  for (int i = 0; i < 40; ++i) {
    const Sample original = make_sample(random_mask(rng));
    if (original.instances[0].mask->area() == 0) continue;
    for (const Step& step : kSteps) {
      if (std::string(step.name) == "resize") continue;  // blends pixels
      SCOPED_TRACE(step.name);
      Sample s = original;
      step.apply(s);
      expect_that_all_follows(s, original);
      shown += std::ssize(s.instances);
    }
    for (int k = 0; k < 6; ++k) {
      const AffineChange change{k == 0 ? 0 : rng.uniform(-180, 180), std::round(rng.uniform(-9, 9)),
                                std::round(rng.uniform(-9, 9)), k == 1 ? 1 : rng.uniform(0.5, 1.5)};
      SCOPED_TRACE(
          fmt::format("{} degrees, x {}, y {}, scale {}", change.degrees, change.x, change.y, change.scale));
      Sample s = original;
      move_affine(s, change);
      expect_that_all_follows(s, original);
      shown += std::ssize(s.instances);
    }
    Sample s = original;
    resize(s, 1 + rng.below(60), 1 + rng.below(60));
    const std::vector<uint8_t> values(s.label_map.values.begin(), s.label_map.values.end());
    EXPECT_EQ(Mask::from_bitmap(s.label_map.size, values),
              original.instances[0].mask->resize(s.label_map.size));
  }
  EXPECT_GT(shown, 350);
}

TEST(PixelMap, WhatIsPastedJoinsWhatIsThere) {
  const Sample part = make_sample(Mask::from_box({kHeight, kWidth}, {10, 10, 20, 30}));
  Sample canvas{.image = Image(100, 120), .instances = {{.label = 1, .box = {0, 0, 5, 5}, .area = 25}}};
  paste(part, {.size = {100, 120}, .x = 60, .y = 50}, canvas);
  ASSERT_EQ(canvas.instances.size(), 2u);
  EXPECT_EQ(canvas.instances[0].box, (Box{0, 0, 5, 5}));
  EXPECT_EQ(canvas.instances[1].box, (Box{70, 60, 80, 80}));
  EXPECT_EQ(*canvas.instances[1].mask, Mask::from_box({100, 120}, {70, 60, 80, 80}));
  EXPECT_EQ(canvas.label_map.values[0], LabelMap::kIgnored);
  EXPECT_EQ(canvas.label_map.values[60 * 120 + 70], 1);
  EXPECT_EQ(canvas.label_map.values[60 * 120 + 69], 0);
}

TEST(PixelMap, ObjectsWithoutPixelsGo) {
  // The box of the ring around the corner is half inside, but its mask is not.
  std::vector<uint8_t> pixels(40 * 50);
  pixels[0] = pixels[39 * 50 + 49] = 1;
  Sample s = make_sample(Mask::from_bitmap({40, 50}, pixels));
  crop(s, 10, 10, 20, 20);
  EXPECT_TRUE(s.instances.empty());
  // Without a mask the area is that of the box.
  s = make_sample(Mask::from_box({40, 50}, {5, 5, 15, 15}));
  s.instances[0].mask = nullptr;
  crop(s, 10, 0, 20, 20);
  ASSERT_EQ(s.instances.size(), 1u);
  EXPECT_EQ(s.instances[0].area, 50);
  crop(s, 4, 0, 10, 10, 0.5);
  EXPECT_TRUE(s.instances.empty());
}

}  // namespace
}  // namespace saccade
