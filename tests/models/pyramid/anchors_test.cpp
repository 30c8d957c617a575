// Tests anchors and box deltas against numbers worked out by hand.
#include "models/pyramid/anchors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/pyramid/box_coder.h"

namespace saccade {
namespace {

AnchorOptions retinanet() {
  return {.strides = {8, 16}, .scales = {4, 4 * std::cbrt(2.0), 4 * std::cbrt(4.0)}};
}

void expect_box(const std::vector<float>& boxes, size_t i, const std::array<double, 4>& expected) {
  ASSERT_GE(boxes.size(), 4 * i + 4);
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(boxes[4 * i + k], expected[k], 1e-4) << i << " " << k;
}

TEST(Anchors, StandAtTheCornersOfCellsByRatioAndScale) {
  const Anchors anchors(retinanet());
  ASSERT_EQ(anchors.per_cell(), 9);
  const FeatureLevels maps = anchors.maps({20, 33});  // reaches to 32 x 64
  EXPECT_EQ(maps[0], (MapSize{4, 8}));
  EXPECT_EQ(maps[1], (MapSize{2, 4}));
  const std::vector<float> boxes = anchors.boxes({20, 33});
  ASSERT_EQ(boxes.size(), static_cast<size_t>(4 * 9 * (32 + 8)));
  const double half = 16 * std::sqrt(2.0);
  expect_box(boxes, 0, {-half, -half / 2, half, half / 2});
  expect_box(boxes, 1, {-28.50876, -14.25438, 28.50876, 14.25438});
  expect_box(boxes, 3, {-16, -16, 16, 16});
  expect_box(boxes, 6, {-half / 2, -half, half / 2, half});
  expect_box(boxes, 9 * 9 + 3, {8 - 16, 8 - 16, 8 + 16, 8 + 16});  // row 1, column 1
  expect_box(boxes, 9 * (32 + 6) + 3, {32 - 32, 16 - 32, 32 + 32, 16 + 32});
  const Anchors::Position place = anchors.position(maps, 9 * (32 + 6) + 3);
  EXPECT_EQ(place.level, 1);
  EXPECT_EQ(place.y, 1);
  EXPECT_EQ(place.x, 2);
  EXPECT_EQ(place.anchor, 3);
  const std::array<float, 4> box = anchors.box({20, 33}, place);
  EXPECT_EQ(box, (std::array<float, 4>{0, -16, 64, 48}));
}

TEST(Anchors, ImagesReachToAMultiple) {
  EXPECT_EQ(reach_of({32, 33}), (ImageSize{32, 64}));
  const Var images(Tensor::full({1, 20, 32, 3}, 1)), filled = fill_reach(images);
  ASSERT_EQ(filled.shape(), (Shape{1, 32, 32, 3}));
  EXPECT_EQ(filled.value().select(0, 0).slice(0, 0, 20).to_vector<float>(),
            images.value().to_vector<float>());
  EXPECT_EQ(filled.value().select(0, 0).slice(0, 20, 32).to_vector<float>(), std::vector<float>(12 * 32 * 3));
}

TEST(Anchors, OfWholePixelsAreTorchvisions) {
  AnchorOptions options = retinanet();
  options.strides = {8, 64};
  options.whole_pixels = true;
  const Anchors anchors(options);
  const std::vector<float> boxes = anchors.boxes({800, 800});
  expect_box(boxes, 0, {-23, -11, 23, 11});
  expect_box(boxes, 2, {-35, -18, 35, 18});
  expect_box(boxes, 4, {-20, -20, 20, 20});
  expect_box(boxes, 7, {-14, -28, 14, 28});
  // 13 cells in 800 pixels: a step of 61.
  const size_t second = static_cast<size_t>(9 * anchors.maps({800, 800}).start(1));
  expect_box(boxes, second + 9 * 14 + 3, {61 - 128, 61 - 128, 61 + 128, 61 + 128});
}

TEST(BoxCoder, TakesAShiftInSidesAndTheLogarithmOfTheGrowth) {
  const BoxCoder coder{.deviations = {0.1, 0.1, 0.2, 0.2}};
  const float from[] = {10, 20, 30, 60}, box[] = {15, 10, 25, 90};
  const auto deltas = coder.encode(from, box);
  EXPECT_NEAR(deltas[0], 0, 1e-6);
  EXPECT_NEAR(deltas[1], 10.0 / 40 / 0.1, 1e-5);
  EXPECT_NEAR(deltas[2], std::log(0.5) / 0.2, 1e-5);
  EXPECT_NEAR(deltas[3], std::log(2.0) / 0.2, 1e-5);
  const auto again = coder.decode(from, deltas.data());
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(again[k], box[k], 1e-4);
}

TEST(BoxCoder, LimitsHowBoxesGrowAndShrink) {
  const float from[] = {0, 0, 16, 16}, deltas[] = {0, 0, 50, -50};
  for (bool shrinking : {true, false}) {
    const BoxCoder coder{.limits_shrinking = shrinking};
    const auto box = coder.decode(from, deltas);
    EXPECT_NEAR(box[2] - box[0], 1000, 1e-2);
    EXPECT_NEAR(box[3] - box[1], shrinking ? 16 * 16.0 / 1000 : 0, 1e-6);
  }
}

TEST(BoxCoder, DecodesTensorsAsBoxes) {
  const std::vector<float> from{0, 0, 10, 20, 5, 5, 9, 30},
      deltas{0.5f, -1, 0.2f, 9, -0.3f, 0, -7, 0.1f, 0.25f, 0, 1, -1, 0, 2, 0, 0};
  for (bool shrinking : {true, false}) {
    const BoxCoder coder{.deviations = {0.1, 0.2, 0.5, 1}, .limits_shrinking = shrinking};
    const Var decoded =
        coder.decode(Var(Tensor::from<float>({2, 2, 4}, deltas)), Tensor::from<float>({1, 2, 4}, from));
    const std::vector<float> got = decoded.value().to_vector<float>();
    for (size_t i = 0; i < 4; ++i) {
      const auto expected = coder.decode(from.data() + 4 * (i % 2), deltas.data() + 4 * i);
      for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(got[4 * i + k], expected[k], 1e-3) << i << " " << k;
    }
    const std::vector<float> cut =
        cut_boxes(decoded, Tensor::from<float>({2, 2}, std::vector<float>{8, 20, 7, 6}))
            .value()
            .to_vector<float>();
    for (size_t i = 0; i < 16; ++i) {
      const float limit = i < 8 ? (i % 2 == 0 ? 8.0f : 20.0f) : (i % 2 == 0 ? 7.0f : 6.0f);
      EXPECT_EQ(cut[i], std::min(std::max(got[i], 0.0f), limit)) << i;
    }
  }
}

}  // namespace
}  // namespace saccade
