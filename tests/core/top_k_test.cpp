// Tests the selection along rows against a stable sort, and the rows of the selected detections.
// tests/core/raw_kernels_test.cpp compares the GPU's selection with this one.
#include "core/kernels/top_k/top_k.h"
#include "core/kernels/top_k/picked_detections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor/philox.h"

namespace saccade {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

std::vector<int64_t> picked(const std::vector<float>& scores, int64_t rows, int64_t picks, bool generic) {
  auto columns = static_cast<int64_t>(scores.size()) / rows;
  // Reused memory may hold the result of the other kernel.
  Tensor indices = Tensor::full({rows, picks}, -1, DType::kI64);
  Tensor x = Tensor::from<float>({rows, columns}, scores);
  generic ? kernels::top_k.generic(x, indices) : kernels::top_k(x, indices);
  return indices.to_vector<int64_t>();
}

TEST(TopK, OrdersTiesInfinitiesAndNan) {
  struct Case {
    std::vector<float> scores;
    std::vector<int64_t> order;
  };
  for (const Case& c :
       {Case{{1, 3, 2}, {1, 2, 0}}, Case{{5, 5, 7, 5}, {2, 0, 1, 3}}, Case{{0.f, -0.f, 0.f}, {0, 1, 2}},
        Case{{kNan, -kInf, kInf, kNan, -1}, {2, 4, 1, 0, 3}}, Case{{kNan, kNan}, {0, 1}}, Case{{4}, {0}}})
    for (bool generic : {false, true})
      for (size_t k = 1; k <= c.order.size(); ++k)
        EXPECT_EQ(picked(c.scores, 1, static_cast<int64_t>(k), generic),
                  std::vector<int64_t>(c.order.begin(), c.order.begin() + static_cast<int64_t>(k)));
}

TEST(TopK, EqualsAStableSortOfEachRow) {
  constexpr int64_t kRows = 3, kColumns = 700, kPicks = 300;
  Rng rng(3);
  std::vector<float> scores(kRows * kColumns);
  for (float& s : scores) s = static_cast<float>(std::floor(rng.uniform(-50, 50)));  // many are equal
  std::vector<int64_t> want;
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<int64_t> order(kColumns);
    std::iota(order.begin(), order.end(), 0);
    const float* s = scores.data() + row * kColumns;
    std::stable_sort(order.begin(), order.end(), [s](int64_t a, int64_t b) { return s[a] > s[b]; });
    want.insert(want.end(), order.begin(), order.begin() + kPicks);
  }
  for (bool generic : {false, true}) EXPECT_EQ(picked(scores, kRows, kPicks, generic), want);
}

TEST(RowMax, TakesTheLargestAndKeepsNan) {
  Tensor x = Tensor::from<float>({2, 2, 3},
                                 std::vector<float>{1, 5, 2, -3, -1, -2, 0, kNan, 1, -kInf, -kInf, -kInf});
  Tensor y = Tensor::empty({2, 2});
  kernels::row_max(x, y);
  auto v = y.to_vector<float>();
  EXPECT_EQ(v[0], 5);
  EXPECT_EQ(v[1], -1);
  EXPECT_TRUE(std::isnan(v[2]));
  EXPECT_EQ(v[3], -kInf);
}

TEST(PickDetections, TakesTheNumbersOfEachPair) {
  constexpr int64_t kImages = 2, kQueries = 3, kColumns = 3, kClasses = 2, kPicks = 2;
  std::vector<float> logits, boxes;
  for (int i = 0; i < kImages * kQueries * kColumns; ++i) logits.push_back(static_cast<float>(100 + i));
  for (int i = 0; i < kImages * kQueries * 4; ++i) boxes.push_back(static_cast<float>(500 + i));
  const std::vector<int64_t> pairs{5, 0, 3, 2};  // query * classes + class
  Tensor rows = Tensor::empty({kImages, kPicks, kernels::kPickedNumbers});
  const auto pick = [&] {
    kernels::pick_detections(Tensor::from<float>({kImages, kQueries, kColumns}, logits),
                             Tensor::from<float>({kImages, kQueries, 4}, boxes),
                             Tensor::from<int64_t>({kImages, kPicks}, pairs), kClasses, rows);
    return rows.to_vector<float>();
  };
  std::vector<float> expected;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto query = static_cast<size_t>(pairs[i] / kClasses),
               label = static_cast<size_t>(pairs[i] % kClasses), row = i / kPicks * kQueries + query;
    expected.push_back(logits[row * kColumns + label]);
    for (size_t k = 0; k < 4; ++k) expected.push_back(boxes[4 * row + k]);
    for (const size_t number : {query, label, size_t{0}}) expected.push_back(static_cast<float>(number));
  }
  EXPECT_EQ(pick(), expected);
  // The rows of an image share its numbers: the first half and the second.
  boxes[0] = kNan;
  logits[kColumns * kQueries + 7] = kInf;
  std::vector<float> bad;
  const std::vector<float> found = pick();
  for (size_t i = 0; i < pairs.size(); ++i) bad.push_back(found[i * kernels::kPickedNumbers + 7]);
  EXPECT_EQ(bad, (std::vector<float>{-1, 0, 0, 8}));
}

}  // namespace
}  // namespace saccade
