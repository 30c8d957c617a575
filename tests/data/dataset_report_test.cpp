// Tests the report on a data set: duplicates, odd boxes and the page.
#include <gtest/gtest.h>

#include <cmath>

#include "core/files/output_file.h"
#include "data/pages/dataset_page.h"
#include "data/pages/odd_boxes.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

// Draws shapes that depend on the seed.
Image scene(int64_t height, int64_t width, int seed, double gain = 1) {
  Image image(height, width);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const double u = static_cast<double>(x) / static_cast<double>(width),
                   v = static_cast<double>(y) / static_cast<double>(height);
      const double light = 110 + 60 * std::sin(7 * u + seed) * std::cos(5 * v + 2.3 * seed) +
                           30 * std::sin(11 * u * v + 1.7 * seed);
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] = static_cast<uint8_t>(std::clamp(gain * light + 5 * c, 0.0, 255.0));
    }
  return image;
}

constexpr const char* kHostile = "<img src=x onerror=alert(1)>";

ReportedSplit make_split(const TestFolder& dir, const std::string& name,
                         const std::vector<std::string>& files) {
  ReportedSplit split{
      .name = name, .paths = {.annotations = name + ".json", .images = dir.path()}, .truth = {}};
  for (size_t i = 0; i < files.size(); ++i)
    split.truth.images.push_back({static_cast<int64_t>(i + 1), files[i], 120, 90});
  split.truth.categories = {{1, "plain"}, {2, kHostile}};
  return split;
}

void add_box(ReportedSplit& split, int64_t image, std::array<double, 4> box, int64_t category = 1) {
  split.truth.annotations.push_back(
      {std::ssize(split.truth.annotations) + 1, image, category, box, box[2] * box[3]});
}

std::vector<ReportedSplit> make_splits(const TestFolder& dir) {
  const std::vector<uint8_t> first = encode_jpeg(scene(90, 120, 1), 95);
  write_file(dir / "a.jpg", first);
  write_file(dir / "a_copy.jpg", first);
  write_file(dir / "a_small_bright.jpg", encode_jpeg(scene(60, 80, 1, 1.1), 60));
  write_png(scene(90, 120, 2), dir / "b.png");
  write_png(scene(90, 120, 3), dir / "c.png");
  write_png(scene(90, 120, 4), dir / "<b>&.png");
  write_png(Image(90, 120), dir / "black.png");
  write_png(Image(60, 80), dir / "black2.png");
  write_file(dir / "broken.jpg", std::string_view("no image"));
  std::vector<ReportedSplit> splits{
      make_split(dir, "train", {"a.jpg", "a_copy.jpg", "b.png", "<b>&.png", "black.png", "broken.jpg"}),
      make_split(dir, "val", {"c.png", "a_small_bright.jpg", "black2.png", "../outside.png"})};
  ReportedSplit& train = splits[0];
  add_box(train, 1, {10, 10, 30, 30});
  add_box(train, 1, {10.5, 10, 30, 30});     // twice
  add_box(train, 1, {10, 10.5, 30, 30}, 2);  // another class: counted with both
  add_box(train, 3, {5, 5, 2, 40});          // tiny, long and thin
  add_box(train, 3, {100, 50, 40, 20});      // outside
  add_box(train, 4, {0, 0, 120, 89}, 2);     // huge
  add_box(train, 4, {3, 3, 0, 10}, 2);       // no area
  add_box(splits[1], 1, {1e300, -1e300, 1e300, 1e300});
  return splits;
}

TEST(DatasetReport, DuplicatesAreFound) {
  TestFolder dir;
  std::vector<ReportedSplit> splits = make_splits(dir);
  std::atomic<int> done = 0;
  const ImageLooks looks = look_at_images(splits, 100, [&] { ++done; });
  EXPECT_EQ(done, 10);
  EXPECT_NE(looks[0][5].problem, "");
  EXPECT_NE(looks[1][3].problem, "");
  const std::vector<DuplicateGroup> groups = find_duplicates(looks);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].images, (std::vector<ImagePlace>{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_TRUE(groups[0].is_leak);
  EXPECT_FALSE(groups[0].is_exact);
  EXPECT_EQ(groups[0].copies, 1);
  EXPECT_FALSE(groups[0].is_exact_leak) << "the copy lies in the same split";
}

TEST(DatasetReport, LooksAtAsManyAsAsked) {
  TestFolder dir;
  std::vector<ReportedSplit> splits = make_splits(dir);
  splits[0].truth.images[2].width = 0;
  const ImageLooks looks = look_at_images(splits, 4, [] {});
  int looked_at = 0;
  for (const auto& split : looks)
    for (const ImageLook& look : split) looked_at += look.is_looked_at || !look.problem.empty();
  EXPECT_EQ(looked_at, 4);
  EXPECT_EQ(splits[0].truth.images[2].width, 120);
}

TEST(DatasetReport, OddBoxesAreCounted) {
  TestFolder dir;
  std::vector<std::string> found;
  for (const OddKind& kind : find_odd_boxes(make_splits(dir)))
    found.push_back(fmt::format("{} {}", kind.title, kind.count));
  EXPECT_EQ(found, (std::vector<std::string>{"No area 1", "Outside 2", "Tiny 1", "Huge 1", "Long and thin 1",
                                             "Nearly the same box twice 1", "One box, two classes 2"}));
}

TEST(DatasetReport, PairsOfAnImageAreBounded) {
  TestFolder dir;
  std::vector<ReportedSplit> splits{make_split(dir, "all", {"a.jpg"})};
  for (int i = 0; i < 1000; ++i) add_box(splits[0], 1, {10, 10, 30, 30});
  const std::vector<OddKind> kinds = find_odd_boxes(splits);
  EXPECT_EQ(kinds[5].count, 200000);
  EXPECT_NE(kinds[5].explanation.find("in 1 image, only the first 200000 pairs"), std::string::npos)
      << kinds[5].explanation;
}

TEST(DatasetReport, IdsOfTwoClassesAreSaid) {
  TestFolder dir;
  std::vector<ReportedSplit> splits = make_splits(dir);
  splits[1].truth.categories[0].name = "other";
  const std::string page = dataset_page(splits, {.title = "set", .footer = "f"});
  for (const char* part :
       {"category 1 is &quot;other&quot;, but &quot;plain&quot; in train", "plain / other"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(DatasetReport, PageHoldsAllAndNothingOfOthersRuns) {
  TestFolder dir;
  std::vector<ReportedSplit> splits = make_splits(dir);
  const std::string page = dataset_page(splits, {.title = "<set>", .footer = "f"});
  for (const char* part : {"&lt;set&gt;", "&lt;img src=x onerror=alert(1)&gt;", "&lt;b&gt;&amp;.png",
                           "nearly the same", "in two splits", "Nearly the same box twice", "broken.jpg"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<img src=x", "<set>", "<b>&.png", "http:", "https:", "&lt;svg"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("<script"), page.rfind("<script"));  // the page's own
  std::vector<ReportedSplit> again = make_splits(dir);
  EXPECT_EQ(dataset_page(again, {.title = "<set>", .footer = "f"}), page);
}

TEST(DatasetReport, MasksAreCountedAndShown) {
  TestFolder dir;
  std::vector<ReportedSplit> splits = make_splits(dir), masked = make_splits(dir);
  const std::string page = dataset_page(splits, {.title = "set", .footer = "f"});
  EXPECT_EQ(page.find("boxes whose object has one"), std::string::npos);
  std::vector<Annotation>& boxes = masked[0].truth.annotations;
  boxes[0].segmentation = std::make_shared<const Segmentation>(Segmentation{{{10, 10, 40, 10, 25, 40}}, {}});
  boxes[3].segmentation = std::make_shared<const Segmentation>(Segmentation{{{-5, -5, 900, 1, 2, 2}}, {}});
  boxes[5].segmentation =  // of another size, which the lists' check tells
      std::make_shared<const Segmentation>(Segmentation{{}, Mask::from_box({7, 7}, {1, 1, 5, 5})});
  const std::string shown = dataset_page(masked, {.title = "set", .footer = "f"});
  for (const char* part : {"boxes whose object has one", ">3</td>"})
    EXPECT_NE(shown.find(part), std::string::npos) << part;
  EXPECT_NE(shown, page);
}

TEST(DatasetReport, ClassFoldersHaveAPageToo) {
  TestFolder dir;
  std::vector<ReportedSplit> splits = make_splits(dir);
  for (ReportedSplit& split : splits) {
    split.truth.annotations.clear();
    for (size_t i = 0; i < split.truth.images.size(); ++i) split.image_classes.push_back(i % 2);
  }
  const std::string page = dataset_page(splits, {.title = "set", .footer = "f"});
  EXPECT_NE(page.find("An image of each class"), std::string::npos);
  EXPECT_EQ(page.find("Odd boxes"), std::string::npos);
}

}  // namespace
}  // namespace saccade
