#include "models/detection/objects.h"

#include <gtest/gtest.h>

#include "core/tensor/error.h"

namespace saccade {
namespace {

TEST(Objects, AreCentresAndSizesAsPartsOfTheirImage) {
  std::vector<Target> targets(3);
  targets[0].frame = {43, 53};
  targets[0].instances = {{.label = 1, .box = {4, 2, 15, 14}}, {.label = 0, .box = {0, 0, 53, 43}}};
  targets[2].frame = {100, 200};
  targets[2].height = 50, targets[2].width = 100;  // the batch was resized, which changes no fraction
  targets[2].instances = {{.label = 7, .box = {50, 25, 150, 75}}};
  const Objects objects(targets);
  EXPECT_EQ(objects.count(), 3);
  EXPECT_EQ(objects.images, (std::vector<int64_t>{0, 0, 2}));
  EXPECT_EQ(objects.labels, (std::vector<int64_t>{1, 0, 7}));
  EXPECT_EQ(objects.boxes, (std::vector<float>{static_cast<float>(9.5 / 53), static_cast<float>(8.0 / 43),
                                               static_cast<float>(11.0 / 53), static_cast<float>(12.0 / 43),
                                               0.5f, 0.5f, 1, 1, 0.5f, 0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(objects.count(1), 0);
  EXPECT_EQ(objects.count(2), 1);
  EXPECT_EQ(objects.label(2, 0), 7);
  EXPECT_EQ(objects.box(2, 0) - objects.boxes.data(), 8);
  EXPECT_NO_THROW(check_objects(objects, targets, 8));
  EXPECT_THROW(check_objects(objects, targets, 7), Error);
  targets[2].frame = {};
  EXPECT_THROW(check_objects(Objects(targets), targets, 8), Error) << "no size, so boxes that are not finite";
}

}  // namespace
}  // namespace saccade
