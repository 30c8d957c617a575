#include "core/types/box.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(Box, Overlap) {
  struct Row {
    Box a, b;
    double common, iou;
  };
  const Row rows[] = {
      {{0, 0, 4, 2}, {0, 0, 4, 2}, 8, 1},         // the same
      {{0, 0, 4, 2}, {2, 1, 6, 3}, 2, 2.0 / 14},  // a corner
      {{0, 0, 4, 4}, {1, 1, 3, 3}, 4, 4.0 / 16},  // one inside the other
      {{0, 0, 4, 2}, {4, 0, 8, 2}, 0, 0},         // they touch
      {{0, 0, 4, 2}, {5, 5, 8, 9}, 0, 0},         // apart on both axes: no product of two negative sides
      {{0, 0, 4, 2}, {1, 1, 1, 2}, 0, 0},         // one without area
      {{1, 1, 1, 1}, {1, 1, 1, 1}, 0, 0},         // two without
      {{-3.5, -1, -0.5, 1}, {-2, -1, 1, 1}, 3, 3.0 / 9},  // left of the image
  };
  for (const Row& row : rows)
    for (const auto& [a, b] : {std::pair(row.a, row.b), std::pair(row.b, row.a)}) {
      EXPECT_EQ(intersection(a, b), row.common);
      EXPECT_EQ(iou(a, b), row.iou);
    }
  const Box box{1, 2, 4, 7.5};
  EXPECT_EQ(box.width(), 3);
  EXPECT_EQ(box.height(), 5.5);
  EXPECT_EQ(box.area(), 16.5);
}

}  // namespace
}  // namespace saccade
