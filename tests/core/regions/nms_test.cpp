// Tests the suppression of overlapping boxes against values worked out by hand and against plain loops.
// tests/core/raw_kernels_test.cpp compares the GPU's with this one.
#include "core/kernels/nms/nms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor/philox.h"

namespace saccade {
namespace {

struct NmsCase {
  const char* what;
  std::vector<float> boxes, scores;
  std::vector<int64_t> groups;
  double threshold;
  std::vector<bool> keep;
};

std::vector<bool> kept(const NmsCase& c, int64_t images, bool generic) {
  const int64_t K = std::ssize(c.scores) / images;
  Tensor keep = Tensor::full({images, K}, 1, DType::kBool);
  const Tensor boxes = Tensor::from<float>({images, K, 4}, c.boxes),
               scores = Tensor::from<float>({images, K}, c.scores),
               groups = Tensor::from<int64_t>({images, K}, c.groups);
  generic ? kernels::nms.generic(boxes, scores, groups, c.threshold, keep)
          : kernels::nms(boxes, scores, groups, c.threshold, keep);
  const bool* p = keep.data<bool>();
  return std::vector<bool>(p, p + keep.numel());
}

TEST(Nms, ByHand) {
  const std::vector<float> halves{0,  0, 10, 10, 0,  0,
                                  10, 5, 0,  5,  10, 10};  // the second and third are halves of the first
  const NmsCase cases[] = {
      {"the better one stays", {0, 0, 10, 10, 1, 0, 11, 10}, {0.3f, 0.4f}, {0, 0}, 0.5, {false, true}},
      {"an equal score: the first stays",
       {0, 0, 10, 10, 1, 0, 11, 10},
       {0.4f, 0.4f},
       {0, 0},
       0.5,
       {true, false}},
      {"as much as the threshold is allowed", halves, {3, 2, 1}, {0, 0, 0}, 0.5, {true, true, true}},
      {"more is not", halves, {3, 2, 1}, {0, 0, 0}, 0.49, {true, false, false}},
      {"what is suppressed suppresses none",
       {0, 0, 10, 1, 4, 0, 14, 1, 8, 0, 18, 1},
       {3, 2, 1},
       {0, 0, 0},
       0.4,
       {true, false, true}},
      {"groups apart", halves, {3, 2, 1}, {0, 1, 0}, 0.3, {true, true, false}},
      {"a negative group", halves, {3, 2, 1}, {-1, 0, 0}, 0.3, {false, true, true}},
      {"not a number comes last", {0, 0, 9, 9, 0, 0, 9, 9}, {std::nanf(""), -1}, {0, 0}, 0.5, {false, true}},
      {"no area: no overlap", {2, 2, 2, 2, 2, 2, 2, 2}, {2, 1}, {0, 0}, 0, {true, true}},
      {"a threshold of 1", {0, 0, 9, 9, 0, 0, 9, 9}, {2, 1}, {0, 0}, 1, {true, true}},
  };
  for (const NmsCase& c : cases)
    for (bool generic : {false, true})
      EXPECT_EQ(kept(c, 1, generic), c.keep) << c.what << ", generic " << generic;
}

TEST(Nms, EqualsPlainLoops) {
  constexpr int64_t kImages = 3, kBoxes = 400;
  Rng rng(5);
  NmsCase c{"", {}, {}, {}, 0.4, std::vector<bool>(kImages * kBoxes, false)};
  for (int64_t i = 0; i < kImages * kBoxes; ++i) {
    const double x = rng.uniform(0, 60), y = rng.uniform(0, 60);
    for (double v : {x, y, x + rng.uniform(1, 30), y + rng.uniform(1, 30)})
      c.boxes.push_back(static_cast<float>(v));
    c.scores.push_back(static_cast<float>(rng.below(50)));  // many are equal
    c.groups.push_back(rng.below(4) - 1);
  }
  for (int64_t n = 0; n < kImages; ++n) {
    std::vector<int64_t> order(kBoxes), chosen;
    std::iota(order.begin(), order.end(), n * kBoxes);
    auto score = [&](int64_t i) { return c.scores[static_cast<size_t>(i)]; };
    std::ranges::stable_sort(order, std::greater{}, score);
    auto box = [&](int64_t i) { return c.boxes.data() + 4 * i; };
    auto area = [&](int64_t i) { return (box(i)[2] - box(i)[0]) * (box(i)[3] - box(i)[1]); };
    for (int64_t i : order) {
      if (c.groups[static_cast<size_t>(i)] < 0) continue;
      bool free = true;
      for (int64_t j : chosen) {
        if (c.groups[static_cast<size_t>(j)] != c.groups[static_cast<size_t>(i)]) continue;
        const float w = std::min(box(i)[2], box(j)[2]) - std::max(box(i)[0], box(j)[0]);
        const float h = std::min(box(i)[3], box(j)[3]) - std::max(box(i)[1], box(j)[1]);
        const float common = std::max(w, 0.0f) * std::max(h, 0.0f);
        free &= !(static_cast<double>(common / (area(j) + area(i) - common)) > c.threshold);
      }
      if (!free) continue;
      chosen.push_back(i);
      c.keep[static_cast<size_t>(i)] = true;
    }
  }
  EXPECT_GT(std::ranges::count(c.keep, true), 100);
  for (bool generic : {false, true}) EXPECT_EQ(kept(c, kImages, generic), c.keep) << generic;
}

TEST(Nms, TakesNoBoxes) {
  const NmsCase c{"", {}, {}, {}, 0.5, {}};
  for (bool generic : {false, true}) EXPECT_EQ(kept(c, 2, generic), c.keep);
}

}  // namespace
}  // namespace saccade
