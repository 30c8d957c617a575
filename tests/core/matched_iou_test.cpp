// Tests the overlap that class losses use as quality against values worked out by hand.
#include "core/kernels/matched_iou/matched_iou.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(MatchedIou, IsThatOfTheBoxes) {
  struct Case {
    std::vector<double> box, truth;
    double iou;
  };
  const Case cases[] = {
      {{0.5, 0.5, 0.4, 0.2}, {0.5, 0.5, 0.4, 0.2}, 1},
      {{0.5, 0.5, 0.4, 0.2}, {0.6, 0.5, 0.4, 0.2}, 0.6},   // 0.06 of 0.1
      {{0.5, 0.5, 0.2, 0.4}, {0.5, 0.6, 0.2, 0.4}, 0.6},   //
      {{0.5, 0.5, 0.2, 0.2}, {0.5, 0.5, 0.4, 0.4}, 0.25},  // one inside the other
      {{0.2, 0.5, 0.2, 0.2}, {0.8, 0.5, 0.2, 0.2}, 0},     // side by side
      {{0.5, 0.2, 0.2, 0.2}, {0.5, 0.8, 0.2, 0.2}, 0},     // one above the other
      {{0.2, 0.2, 0.2, 0.2}, {0.8, 0.8, 0.2, 0.2}, 0},     // both, where two negative sides would overlap
      {{0.5, 0.5, 0, 0}, {0.5, 0.5, 0, 0}, 0}};
  std::vector<double> boxes, truth;
  std::vector<int64_t> rows;
  const auto count = static_cast<int64_t>(std::size(cases));
  for (const Case& c : cases) {
    boxes.insert(boxes.end(), c.box.begin(), c.box.end());
    truth.insert(truth.end(), c.truth.begin(), c.truth.end());
    rows.push_back(count - static_cast<int64_t>(rows.size()));  // the last first, and none in row 0
  }
  for (DType dtype : {DType::kF32, DType::kF64}) {
    Tensor quality = Tensor::full({count + 1}, -1, dtype);
    kernels::matched_iou(Tensor::from<double>({count, 4}, boxes).to(dtype),
                         Tensor::from<double>({count, 4}, truth).to(dtype),
                         Tensor::from<int64_t>({count}, rows), quality);
    const std::vector<double> got = quality.to_vector<double>();
    EXPECT_EQ(got[0], -1);
    for (size_t i = 0; i < std::size(cases); ++i)
      // A handful of roundings of numbers up to 1, in an area of 0.04 or more.
      EXPECT_NEAR(got[static_cast<size_t>(rows[i])], cases[i].iou, dtype == DType::kF32 ? 2e-5 : 1e-13) << i;
  }
}

}  // namespace
}  // namespace saccade
