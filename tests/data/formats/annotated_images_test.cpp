// Tests how training sees annotations.
#include "data/formats/dataset.h"

#include <gtest/gtest.h>

#include "tests/input_error.h"

namespace saccade {
namespace {

std::shared_ptr<const Segmentation> polygons(std::vector<std::vector<double>> points) {
  return std::make_shared<const Segmentation>(Segmentation{.polygons = std::move(points), .runs = {}});
}

Dataset set_of(std::vector<Annotation> annotations) {
  GroundTruth truth{.images = {{.id = 1, .file_name = "a.jpg", .width = 20, .height = 10}},
                    .annotations = std::move(annotations),
                    .categories = {{.id = 5, .name = "thing"}}};
  return {"a.json", "", std::move(truth), LabelScheme::kContiguous};
}

TEST(Dataset, InstancesHaveTheMasksOfTheirSegmentations) {
  const Segmentation runs{.polygons = {}, .runs = Mask::from_box({10, 20}, {3, 3, 6, 8})};
  const Dataset set =
      set_of({{.id = 1,
               .image_id = 1,
               .category_id = 5,
               .bbox = {2, 2, 6, 4},
               .area = 24,
               .segmentation = polygons({{2, 2, 8, 2, 8, 6, 2, 6}})},
              {.id = 2,
               .image_id = 1,
               .category_id = 5,
               .bbox = {3, 3, 3, 5},
               .area = 15,
               .segmentation = std::make_shared<const Segmentation>(runs)},
              {.id = 3, .image_id = 1, .category_id = 5, .bbox = {3, 3, 3, 5}, .area = 15},
              {.id = 4, .image_id = 1, .category_id = 5, .bbox = {0, 0, 9, 9}, .area = 81, .iscrowd = true}});
  const Sample sample = set.make_sample(0, Image(10, 20));
  ASSERT_EQ(sample.instances.size(), 3u);
  ASSERT_TRUE(sample.instances[0].mask && sample.instances[1].mask);
  EXPECT_EQ(*sample.instances[0].mask, Mask::from_polygons({10, 20}, {{{2, 2, 8, 2, 8, 6, 2, 6}}}));
  EXPECT_EQ(*sample.instances[1].mask, runs.runs);
  EXPECT_EQ(sample.instances[1].area, 15);
  EXPECT_FALSE(sample.instances[2].mask);
}

TEST(Dataset, AMaskThatDoesNotFitItsImageIsNamed) {
  // These boxes are those of a picture that was turned after it was annotated.
  const Dataset set = set_of({{.id = 8,
                               .image_id = 1,
                               .category_id = 5,
                               .bbox = {2, 2, 6, 4},
                               .area = 24,
                               .segmentation = std::make_shared<const Segmentation>(Segmentation{
                                   .polygons = {}, .runs = Mask::from_box({10, 20}, {3, 3, 6, 8})})}});
  EXPECT_EQ(input_error([&] { set.make_sample(0, Image(20, 10)); }),
            "a.json: annotation 8: mask: it is 20 x 10, but its image is 10 x 20");
}

}  // namespace
}  // namespace saccade
