// Tests masks in data sets: what the readers make of all forms, and that what is written says the same.
#include "core/types/mask.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "tests/data/formats/reader_rows.h"

namespace saccade {
namespace {

using test::Files;

const std::string kGolden = SACCADE_SOURCE_DIR "/tests/golden/masks/coco.json";

GroundTruth read_masks(const std::string& annotations) {
  return read_ground_truth(
      {.annotations = annotations, .images = "", .wants = {.boxes = true, .masks = true}});
}

// Expects polygons to stay polygons with the same numbers, and runs to stay runs.
void expect_same_masks(const GroundTruth& got, const GroundTruth& expected) {
  ASSERT_EQ(got.annotations.size(), expected.annotations.size());
  for (size_t i = 0; i < got.annotations.size(); ++i) {
    const auto &a = got.annotations[i].segmentation, &b = expected.annotations[i].segmentation;
    ASSERT_EQ(a == nullptr, b == nullptr) << i;
    if (!a) continue;
    EXPECT_EQ(a->polygons, b->polygons) << i;
    EXPECT_EQ(a->runs, b->runs) << i;
  }
}

// The areas and boxes of tests/golden/masks/coco.json (scripts/golden/data/make_mask_sets.py) are
// pycocotools'.
TEST(CocoMasks, EqualPycocotools) {
  const GroundTruth truth = read_masks(kGolden);
  std::map<int64_t, ImageSize> sizes;
  for (const ImageInfo& image : truth.images) sizes[image.id] = {image.height, image.width};
  int64_t polygons = 0, runs = 0;
  for (const Annotation& a : truth.annotations) {
    ASSERT_TRUE(a.segmentation) << a.id;
    const Mask mask = a.segmentation->mask(sizes.at(a.image_id));
    EXPECT_EQ(static_cast<double>(mask.area()), a.area) << a.id;
    const auto [x, y, w, h] = a.bbox;
    EXPECT_EQ(mask.box(), (Box{x, y, x + w, y + h})) << a.id;
    ++(a.segmentation->polygons.empty() ? runs : polygons);
  }
  EXPECT_EQ(polygons, 40);
  EXPECT_EQ(runs, 40);
}

TEST(CocoMasks, AreReadWhereTheyAreWanted) {
  for (const Annotation& a : read_ground_truth({kGolden, ""}).annotations) EXPECT_FALSE(a.segmentation);
}

TEST(CocoMasks, SurviveWritingAndFixing) {
  const GroundTruth truth = read_masks(kGolden);
  TestFolder dir;
  write_bytes(dir / "a.json", coco_json(truth, "test"));
  expect_same_masks(read_masks(dir / "a.json"), truth);

  // Boxes are cut, but the masks stay.
  GroundTruth moved = truth, left;
  for (Annotation& a : moved.annotations) a.bbox[2] += 5;
  write_bytes(dir / "a.json", coco_json(moved, "test"));
  const DatasetReport report = check_dataset({.annotations = dir / "a.json"}, &left);
  EXPECT_GT(report.problems.count(), 0);
  write_bytes(dir / "fixed.json", coco_json(left, "test"));
  expect_same_masks(read_masks(dir / "fixed.json"), truth);
}

std::string annotated(const std::string& segmentation, const std::string& more) {
  return fmt::format(
      R"({{"images":[{{"id":1,"file_name":"a.png","width":6,"height":4}}],"annotations":[{{"id":7,"image_id":1,)"
      R"("category_id":1,"segmentation":{}{}}}],"categories":[{{"id":1,"name":"a"}}]}})",
      segmentation, more);
}

std::string many_times(const std::string& text, int count) {
  std::string all;
  while (count-- > 0) all += text;
  return all;
}

TEST(CocoMasks, FaultsAreNamedAndBoxesStay) {
  const std::string many = many_times("1,", 10'000'000) + "1";
  const std::pair<std::string, std::string> rows[] = {
      {"[[0,0,3,0,3,3,1]]", "mask: polygon 1 has 7 coordinates, expected an even number, at least 6"},
      {"[[0,0,3,0,3,3],[5]]", "mask: polygon 2 has 1 coordinates, expected an even number"},
      {"[[0,0,3,0,3,1e300]]", "mask: polygon 1 has the coordinate 1e+300, expected at most 1e+08 pixels"},
      {"[[0,0,3,0,3,-1e9]]", "mask: polygon 1 has the coordinate -1000000000, expected"},
      {"[[0,0,3,0,3,1e999]]", "mask: polygon 1 must be a list of finite numbers"},
      {"[[0,0,3,0,3,null]]", "mask: polygon 1 must be a list of finite numbers"},
      {"[[0,0,3,0,3,[1]]]", "mask: polygon 1 must be a list of finite numbers"},
      {"[0,0,3,0,3,3]", "mask: polygon 1 must be a list of finite numbers"},
      {R"([{"size":[4,6],"counts":"0h0"}])", "mask: polygon 1 must be a list of finite numbers"},
      {"\"0h0\"", "mask: must be a list of polygons or an object with \"size\" and \"counts\""},
      {"7", "mask: must be a list of polygons or an object with \"size\" and \"counts\""},
      {"{}", "mask: field \"size\" is missing"},
      {R"({"size":[4,6]})", "mask: field \"counts\" is missing"},
      {R"({"counts":[24]})", "mask: field \"size\" is missing"},
      {R"({"size":[4,6],"counts":[24],"counts":[24]})", "mask: field \"counts\" appears twice"},
      {R"({"size":[4],"counts":[24]})", "mask: field \"size\" must be two integers"},
      {R"({"size":[4,6,1],"counts":[24]})", "mask: field \"size\" must be two integers"},
      {R"({"size":"4x6","counts":[24]})", "mask: field \"size\" must be two integers"},
      {R"({"size":[4,6],"counts":{"a":1}})", "mask: field \"counts\" must be a list of integers"},
      {R"({"size":[4,6],"counts":[23.5,0.5]})", "mask: field \"counts\" must be a list of integers"},
      {R"({"size":[4,6],"counts":[99999999999999999999]})", "mask: field \"counts\" must be a list of"},
      {R"({"size":[4,6],"counts":[]})", "mask: its counts add up to 0, expected 24 (6 x 4 pixels)"},
      {R"({"size":[4,6],"counts":[20,3]})", "mask: its counts add up to 23, expected 24"},
      {R"({"size":[4,6],"counts":[20,5]})", "mask: its counts add up to more than its 6 x 4 pixels"},
      {R"({"size":[4,6],"counts":[30,-6]})", "mask: its counts add up to more"},
      {R"({"size":[4,6],"counts":[20,-6,10]})", "mask: count 2 is -6, expected 0 or more"},
      {R"({"size":[4,6],"counts":[9223372036854775807,9223372036854775807]})", "mask: its counts add up to"},
      {R"({"size":[4,6],"counts":[)" + many + "]}", "mask: its counts add up to more"},
      {R"({"size":[6,4],"counts":[24]})", "mask: it is 4 x 6, but its image is 6 x 4"},
      {R"({"size":[0,0],"counts":[]})", "mask: 0 x 0 pixels, expected 1 to"},
      {R"({"size":[-4,-6],"counts":[24]})", "mask: -6 x -4 pixels, expected 1 to"},
      {R"({"size":[3000000000,3000000000],"counts":[24]})", "mask: 3000000000 x 3000000000 pixels"},
      {R"({"size":[4,6],"counts":"h0 "})", "mask: byte 3 of its text is 0x20, expected '0' to 'o'"},
      {R"({"size":[4,6],"counts":"ooooooooo"})", "mask: byte 8 of its text makes a number too large"},
      {R"({"size":[4,6],"counts":"Q"})", "mask: its text ends within a number"},
      {R"({"size":[4,6],"counts":""})", "mask: its counts add up to 0, expected 24"},
  };
  TestFolder dir;
  const DataPaths paths{.annotations = dir / "a.json", .images = "", .wants = {.boxes = true, .masks = true}};
  for (const auto& [segmentation, expected] : rows) {
    SCOPED_TRACE(segmentation.substr(0, 80));
    write_bytes(dir / "a.json", annotated(segmentation, R"(,"bbox":[1,1,2,2])"));
    // Bad masks do not hinder a reader that wants only boxes.
    EXPECT_EQ(read_ground_truth({dir / "a.json", ""}).annotations.size(), 1u);
    const std::string error = input_error([&] { read_ground_truth(paths); });
    EXPECT_EQ(error.find(dir / "a.json: annotation 7: " + expected), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
    GroundTruth left;
    const DatasetReport report = check_dataset({.annotations = paths.annotations}, &left);
    EXPECT_EQ(report.problems.lines(), std::vector{error});
    ASSERT_EQ(left.annotations.size(), 1u);
    EXPECT_FALSE(left.annotations[0].segmentation);
    EXPECT_EQ(report.left_out,
              std::vector<std::string>{"1 mask with a fault is left out; its object keeps the box"});
  }
  for (const std::string& deep : {many_times("[", 2000) + many_times("]", 2000), many_times("[", 2000)})
    for (const bool masks : {false, true}) {
      write_bytes(dir / "a.json", annotated(deep, R"(,"bbox":[1,1,2,2])"));
      const std::string error = input_error([&] {
        read_ground_truth(
            {.annotations = dir / "a.json", .images = "", .wants = {.boxes = true, .masks = masks}});
      });
      EXPECT_EQ(error.find(dir / "a.json: "), 0u) << error;
      EXPECT_EQ(error.find('\n'), std::string::npos);
    }
}

// These are no masks, without being wrong.
TEST(CocoMasks, ThereMayBeNone) {
  TestFolder dir;
  for (const char* none : {"[]", "null", "[[]]", "[[1,1]]", "[[1,1,2,2],[]]"}) {
    SCOPED_TRACE(none);
    write_bytes(dir / "a.json", annotated(none, R"(,"bbox":[1,1,2,2])"));
    const GroundTruth truth = read_masks(dir / "a.json");
    ASSERT_EQ(truth.annotations.size(), 1u);
    EXPECT_FALSE(truth.annotations[0].segmentation);
    EXPECT_EQ(truth.notes.empty(), std::string(none) == "[]" || std::string(none) == "null");
  }
  // detectron2 drops these as well.
  write_bytes(dir / "a.json", annotated("[[1,1,2,2],[0,0,3,0,3,3]]", R"(,"bbox":[1,1,2,2])"));
  const GroundTruth truth = read_masks(dir / "a.json");
  ASSERT_TRUE(truth.annotations[0].segmentation);
  EXPECT_EQ(truth.annotations[0].segmentation->polygons,
            (std::vector<std::vector<double>>{{0, 0, 3, 0, 3, 3}}));
  EXPECT_EQ(truth.notes,
            std::vector<std::string>{"1 polygon has fewer than three points and is left out, for example in "
                                     "annotation 7; 0 objects are left without a mask"});
}

TEST(CocoMasks, GiveTheBoxWhereThereIsNone) {
  using Corners = std::array<double, 4>;
  TestFolder dir;
  const std::pair<std::string, Corners> rows[] = {
      {"[[0.5,0,3,0.25,3,3],[1,1,2,3.75,2,2]]", {0.5, 0, 2.5, 3.75}},
      {R"({"size":[4,6],"counts":[5,2,2,2,13]})", {1, 1, 2, 2}},  // columns 1 and 2, rows 1 and 2
  };
  for (const auto& [segmentation, box] : rows)
    for (const bool masks : {false, true}) {
      write_bytes(dir / "a.json", annotated(segmentation, ""));
      const GroundTruth truth = read_ground_truth(
          {.annotations = dir / "a.json", .images = "", .wants = {.boxes = true, .masks = masks}});
      EXPECT_EQ(truth.annotations[0].bbox, box);
      EXPECT_EQ(truth.annotations[0].segmentation != nullptr, masks);
      EXPECT_EQ(truth.notes.size(), 1u);
    }
  for (const char* none : {R"({"size":[4,6],"counts":[24]})", R"({"size":[4,6],"counts":[2]})", "[]"}) {
    write_bytes(dir / "a.json", annotated(none, ""));
    const std::string error = input_error([&] { read_masks(dir / "a.json"); });
    EXPECT_NE(error.find("annotation 7: field \"bbox\" is missing, and "), std::string::npos) << error;
  }
}

// Only the file tells the size of the image.
TEST(CocoMasks, SizesAreHeldAgainstTheImages) {
  TestFolder dir;
  write_png(Image(4, 6), dir / "a.png");
  for (const bool fits : {true, false}) {
    std::string text =
        annotated(fits ? R"({"size":[4,6],"counts":[5,2,17]})" : R"({"size":[6,4],"counts":[5,2,17]})",
                  R"(,"bbox":[1,1,2,2])");
    text.erase(text.find(",\"width\""), std::string(",\"width\":6,\"height\":4").size());
    write_bytes(dir / "a.json", text);
    GroundTruth left;
    const DatasetReport report = check_dataset({.annotations = dir / "a.json", .images = dir.path()}, &left);
    EXPECT_EQ(report.problems.count(), fits ? 0 : 1);
    ASSERT_EQ(left.annotations.size(), 1u);
    EXPECT_EQ(left.annotations[0].segmentation != nullptr, fits);
    if (!fits) {
      EXPECT_EQ(report.problems.lines()[0],
                dir / "a.json: annotation 7: mask: it is 4 x 6, but its image is 6 x 4");
    }
  }
}

// The real sets that are next to the project.
TEST(CocoMasks, RealOnesSurvive) {
  const std::string base = SACCADE_SOURCE_DIR "/../shared/data/coco_cc_mini/annotations/";
  if (!std::filesystem::exists(base)) GTEST_SKIP() << base << " is not there";
  for (const char* name : {"train_masks.json", "val_masks.json"}) {
    EXPECT_EQ(check_dataset({.annotations = base + name}).problems.lines(), std::vector<std::string>());
    const GroundTruth truth = read_masks(base + name);
    TestFolder dir;
    write_bytes(dir / "a.json", coco_json(truth, "test"));
    expect_same_masks(read_masks(dir / "a.json"), truth);
    int64_t with = 0;
    for (const Annotation& a : truth.annotations) with += a.segmentation != nullptr;
    EXPECT_EQ(with, std::ssize(truth.annotations));
  }
}

// Returns a line per object: "-" without a mask, its points, or the numbers of its pixels (column by column).
std::string masks_in(const GroundTruth& truth) {
  std::string text;
  for (const Annotation& a : truth.annotations) {
    if (!a.segmentation) text += "-";
    for (const auto& polygon : a.segmentation ? a.segmentation->polygons : std::vector<std::vector<double>>())
      text += fmt::format("[{}]", fmt::join(polygon, ","));
    for (const Mask::Run& run : a.segmentation ? a.segmentation->runs.runs() : std::vector<Mask::Run>())
      for (uint32_t i = run.begin; i < run.end; ++i) text += fmt::format("{},", i);
    text += "\n";
  }
  return text;
}

std::string cvat_shapes(const std::string& shapes) {
  return R"(<annotations><image id="0" name="1.png" width="40" height="20">)" + shapes +
         "</image></annotations>";
}
std::string cvat_mask(const std::string& rle, const std::string& window) {
  return R"(<mask label="nut" rle=")" + rle + "\" " + window + "/>";
}
std::string labelme_of(const std::string& type, const std::string& points) {
  return R"({"shapes":[{"label":"nut","points":)" + points + R"(,"shape_type":")" + type +
         R"("}],"imagePath":"1.png","imageHeight":20,"imageWidth":40})";
}
const std::string kYaml = "names: [nut]\ntrain: images\n",
                  kWindow = R"(left="3" top="4" width="3" height="2")";

TEST(Masks, AreReadInEveryFormatThatHasThem) {
  const std::vector<std::pair<Files, std::string>> rows = {
      {{{"data.yaml", kYaml},
        {"images/1.png", ""},
        {"labels/1.txt", "0 0.5 0.5 0.2 0.2\n0 0.1 0.1 0.5 0.1 0.25 0.85\n0 0 0 1 0 1 1 0 1\n"}},
       "-\n[4,2,20,2,10,17]\n[0,0,40,0,40,20,0,20]\n"},
      {{{"1.json", labelme_of("polygon", "[[1.5,2],[5,2],[3,9.25]]")}, {"1.png", ""}},
       "[1.5,2,5,2,3,9.25]\n"},
      {{{"1.json", labelme_of("rotation", "[[1,2],[5,2],[5,4],[1,4]]")}, {"1.png", ""}},
       "[1,2,5,2,5,4,1,4]\n"},
      {{{"1.json", labelme_of("rectangle", "[[1,2],[5,4]]")}, {"1.png", ""}}, "-\n"},
      {{{"1.json", labelme_of("circle", "[[5,5],[7,5]]")}, {"1.png", ""}}, "-\n"},
      {{{"annotations.xml",
         cvat_shapes(
             R"(<polygon label="nut" points="1.5,2; 5,2;3,9.5"/><box label="nut" xtl="1" ytl="1" xbr="3" ybr="4"/>)" +
             cvat_mask("1, 2, 2, 1", kWindow))},
        {"images/1.png", ""}},
       // Rows of 3: .## and ..#, at column 3 and row 4 of columns of 20.
       "[1.5,2,5,2,3,9.5]\n-\n84,104,105,\n"},
  };
  for (const auto& [files, expected] : rows) {
    TestFolder dir;
    test::make(dir, files);
    DataPaths paths = *find_splits(dir.path()).train;
    for (const Annotation& a : read_ground_truth(paths).annotations) EXPECT_FALSE(a.segmentation);
    GroundTruth left;
    EXPECT_EQ(check_dataset(paths, &left).problems.lines(), std::vector<std::string>());
    paths.wants.masks = true;
    const GroundTruth truth = read_ground_truth(paths);
    EXPECT_EQ(masks_in(truth), expected);
    EXPECT_EQ(masks_in(left), expected);
    write_bytes(dir / "written.json", coco_json(truth, "test"));
    EXPECT_EQ(masks_in(read_masks(dir / "written.json")), expected);
  }
}

TEST(Masks, FaultsAreNamedInEveryFormat) {
  const std::vector<std::pair<Files, std::string>> rows = {
      {{{"1.json", labelme_of("polygon", "[[1,2],[5,2],[3,1e300]]")}, {"1.png", ""}},
       "1.json: shape 1: mask: polygon 1 has the coordinate 1e+300, expected at most 1e+08 pixels"},
      {{{"annotations.xml", cvat_shapes(R"(<polygon label="nut" points="1,2;5,2;3,-1e9"/>)")},
        {"images/1.png", ""}},
       "annotations.xml: line 1: mask: polygon 1 has the coordinate -1000000000"},
      {{{"annotations.xml", cvat_shapes(cvat_mask("1, 2", kWindow))}, {"images/1.png", ""}},
       "annotations.xml: line 1: mask: its counts add up to 3, expected 6"},
      {{{"annotations.xml", cvat_shapes(cvat_mask("1, 2, 4", kWindow))}, {"images/1.png", ""}},
       "annotations.xml: line 1: mask: its counts add up to more than"},
      {{{"annotations.xml", cvat_shapes(cvat_mask("7, -1", kWindow))}, {"images/1.png", ""}},
       "annotations.xml: line 1: mask: its counts add up to more than"},
      {{{"annotations.xml", cvat_shapes(cvat_mask("1, x", kWindow))}, {"images/1.png", ""}},
       "annotations.xml: line 1: mask: expected run lengths like rle=\"3, 5, 7\""},
      {{{"annotations.xml", cvat_shapes(cvat_mask("5.5, 0.5", kWindow))}, {"images/1.png", ""}},
       "annotations.xml: line 1: mask: 5.5, expected a whole number of pixels up to 1e9"},
      {{{"annotations.xml", cvat_shapes(cvat_mask("6", R"(left="3" top="4" width="1e300" height="2")"))},
        {"images/1.png", ""}},
       "annotations.xml: line 1: mask: 1e+300, expected a whole number of pixels up to 1e9"},
      {{{"annotations.xml", cvat_shapes(cvat_mask("6", R"(left="3" top="4" width="1e9" height="1e9")"))},
        {"images/1.png", ""}},
       "annotations.xml: line 1: mask: 1000000000 x 1000000000 pixels do not fit in its image of 40 x 20"},
  };
  for (const auto& [files, expected] : rows) {
    TestFolder dir;
    test::make(dir, files);
    DataPaths paths = *find_splits(dir.path()).train;
    EXPECT_EQ(read_ground_truth(paths).annotations.size(), 1u);
    GroundTruth left;
    const std::vector<std::string> problems = check_dataset(paths, &left).problems.lines();
    ASSERT_FALSE(problems.empty());
    EXPECT_NE(problems[0].find(expected), std::string::npos) << problems[0];
    paths.wants.masks = true;
    EXPECT_EQ(input_error([&] { read_ground_truth(paths); }), problems[0]);
  }
}

TEST(Masks, OfAFormatWithoutThemAreRefused) {
  TestFolder dir;
  write_bytes(dir / "boxes.csv", "image,class,x1,y1,x2,y2\na.png,a,1,1,2,2\n");
  const DataPaths paths{
      .annotations = dir / "boxes.csv", .images = "", .wants = {.boxes = true, .masks = true}};
  const std::string expected =
      dir /
      "boxes.csv: data format csv has boxes, the task needs boxes and masks; formats that have them: coco, cvat, "
      "labelme, yolo";
  EXPECT_EQ(input_error([&] { read_ground_truth(paths); }).find(expected), 0u);
  EXPECT_EQ(input_error([&] { open_dataset(paths); }).find(expected), 0u);
  DataPaths several{.annotations = "all", .images = "", .wants = {.boxes = true, .masks = true}};
  several.sets = {{kGolden, ""}, {dir / "boxes.csv", ""}};
  EXPECT_EQ(input_error([&] { read_ground_truth(several); }).find(expected), 0u);
  // A reader that takes masks where there are some gets those of the other set.
  const GroundTruth truth =
      read_ground_truth(with_masks({.annotations = "all", .images = "", .sets = several.sets}));
  EXPECT_EQ(std::ranges::count_if(truth.annotations, [](auto& a) { return a.segmentation != nullptr; }), 80);
  EXPECT_EQ(truth.annotations.size(), 81u);
}

}  // namespace
}  // namespace saccade
