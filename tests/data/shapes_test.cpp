#include "data/shapes/shapes_dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "core/files/file.h"
#include "data/formats/coco/coco.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

TEST(Shapes, FilesDoNotDependOnTheThreads) {
  TestFolder dir;
  ShapesOptions options;
  options.images = 12;
  options.seed = 3;
  for (int threads : {1, 3}) {
    options.threads = threads;
    write_shapes_dataset(dir / fmt::format("t{}", threads), options);
  }
  EXPECT_EQ(read_file(dir / "t1/annotations.json", kJsonFile),
            read_file(dir / "t3/annotations.json", kJsonFile));
  for (int i = 1; i <= 12; ++i) {
    std::string name = fmt::format("/images/{:06}.png", i);
    EXPECT_EQ(read_file((dir / "t1") + name, kImageFile), read_file((dir / "t3") + name, kImageFile)) << name;
  }
  options.seed = 4;
  EXPECT_FALSE(draw_shapes_image(options, 0).image == read_image(dir / "t1/images/000001.png"));
}

TEST(Shapes, IsASoundCocoSetOfSixCategories) {
  TestFolder dir;
  ShapesOptions options;
  options.images = 150;
  options.seed = 11;
  int64_t last = 0;
  options.threads = 1;
  options.progress = [&](int64_t done) { last = done; };
  write_shapes_dataset(dir.path(), options);
  EXPECT_EQ(last, 150);
  auto set = load_coco(dir / "annotations.json", dir / "images");
  EXPECT_EQ(set.num_images(), 150);
  EXPECT_EQ(set.class_names(), shape_names());
  EXPECT_EQ(
      check_dataset({.annotations = dir / "annotations.json", .images = dir / "images"}).problems.count(), 0);
  std::set<int64_t> categories;
  std::set<size_t> counts;
  double largest = 0;
  for (int64_t i = 0; i < set.num_images(); ++i) {
    const ImageInfo& image = set.image(i);
    EXPECT_GE(std::min(image.width, image.height), 128);
    EXPECT_LE(std::max(image.width, image.height), 192);
    counts.insert(set.annotations_of(i).size());
    for (const Annotation& a : set.annotations_of(i)) {
      categories.insert(a.category_id);
      double side = std::max(a.bbox[2], a.bbox[3]) / static_cast<double>(std::min(image.width, image.height));
      largest = std::max(largest, side);
      EXPECT_LE(side, 0.62);  // 60 % and a rounded pixel at both ends
      EXPECT_GT(a.area, 0);
      EXPECT_LE(a.area, a.bbox[2] * a.bbox[3]);
    }
  }
  EXPECT_EQ(categories.size(), 6u);
  EXPECT_EQ(*counts.begin(), 1u);
  EXPECT_GE(*counts.rbegin(), 7u);
  EXPECT_LE(*counts.rbegin(), 8u);
  EXPECT_GT(largest, 0.5);
}

TEST(Shapes, NeverWritesOverAnythingAndLeavesNoHalfSet) {
  TestFolder dir;
  ShapesOptions options;
  options.images = 2;
  write_shapes_dataset(dir.path(), options);
  EXPECT_NE(input_error([&] { write_shapes_dataset(dir.path(), options); }).find("already exists"),
            std::string::npos);
  options.images = 0;
  EXPECT_NE(input_error([&] { write_shapes_dataset(dir / "x", options); }), "no error");
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
  options.images = 3;
  options.progress = [](int64_t done) {
    if (done == 2) fail_input("interrupted");
  };
  EXPECT_EQ(input_error([&] { write_shapes_dataset(dir / "y", options); }), "interrupted");
  EXPECT_FALSE(std::filesystem::exists(dir / "y"));
}

}  // namespace
}  // namespace saccade
