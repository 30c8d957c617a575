// Tests what check, --fix and training do with COCO files as programs write them; comments name the issues in
// which people reported them.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/evaluation/coco/coco_eval.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/image_check.h"
#include "data/formats/checks/units.h"
#include "data/formats/coco/coco.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + ";";
  return all;
}

// A file with images a.png (20 x 10), b.png ... by default.
struct CheckedFile {
  std::string images =
      R"({"id":1,"file_name":"a.png","width":20,"height":10},{"id":2,"file_name":"b.png","width":20,"height":10})";
  std::string annotations, categories = R"({"id":1,"name":"nut"})";
};

struct Checked {
  std::string problems, remarks, left_out, boxes;  // boxes: of what is left, "image:category:x,y,w,h "
  GroundTruth left;
};

Checked checked_file(const CheckedFile& file, const std::vector<std::string>& files = {},
                     DataPaths paths = {}) {
  TestFolder dir;
  write_bytes(dir / "a.json", "{\"images\":[" + file.images + "],\"annotations\":[" + file.annotations +
                                  "],\"categories\":[" + file.categories + "]}");
  for (const std::string& name : files) {
    std::filesystem::create_directories(std::filesystem::path(dir / name).parent_path());
    write_png(Image(10, 20), dir / name);
  }
  paths.annotations = dir / "a.json";
  if (!files.empty()) paths.images = dir.path();
  Checked out;
  const DatasetReport report = check_dataset(paths, &out.left);
  out.problems = joined_lines(report.problems.lines());
  out.remarks = joined_lines(report.remarks);
  out.left_out = joined_lines(report.left_out);
  for (const Annotation& a : out.left.annotations)
    out.boxes += fmt::format("{}:{}:{},{},{},{} ", a.image_id, a.category_id, a.bbox[0], a.bbox[1], a.bbox[2],
                             a.bbox[3]);
  return out;
}

std::string box_json(const std::string& id, const std::string& image, const std::string& bbox,
                     const std::string& category = "1") {
  return fmt::format(R"({{"id":{},"image_id":{},"category_id":{},"bbox":[{}]}})", id, image, category, bbox);
}

// The file holds two exports, so nobody knows which of two images a box belongs to.
TEST(Fix, AnIdOfTwoFilesIsOfNeither) {
  CheckedFile file;
  file.images +=
      R"(,{"id":1,"file_name":"c.png","width":20,"height":10},{"id":7,"file_name":"c.png","width":20,"height":10})";
  file.annotations = box_json("1", "1", "1,1,2,2") + "," + box_json("2", "2", "3,3,2,2") + "," +
                     box_json("3", "1", "5,5,2,2") + "," + box_json("4", "7", "6,6,2,2");
  const Checked checked = checked_file(file);
  EXPECT_NE(checked.problems.find("image 1: the id is used 2 times"), std::string::npos) << checked.problems;
  EXPECT_EQ(checked.boxes, "2:1:3,3,2,2 ");
  ASSERT_EQ(checked.left.images.size(), 1u);
  for (const char* part : {"3 images are left out: the id 1 belongs to \"a.png\" and to \"c.png\"",
                           "3 boxes of these images are left out"})
    EXPECT_NE(checked.left_out.find(part), std::string::npos) << checked.left_out;
  // An image that is listed twice counts once.
  file.images =
      R"({"id":1,"file_name":"a.png","width":20,"height":10},{"id":1,"file_name":"a.png","width":20,"height":10})";
  file.annotations = box_json("1", "1", "1,1,2,2") + "," + box_json("1", "1", "1,1,2,2") + "," +
                     box_json("2", "1", "5,5,2,2");
  EXPECT_EQ(checked_file(file).boxes, "1:1:1,1,2,2 1:1:5,5,2,2 ");
  EXPECT_NE(checked_file(file).left_out.find("1 image is merged into another with the same file"),
            std::string::npos)
      << checked_file(file).left_out;
}

TEST(Fix, WhatWasNotReadIsCounted) {
  CheckedFile file;
  file.annotations = box_json("1", "1", "1,1,2") + "," + box_json("2", "1", "5,5,2,2") + "," +
                     R"({"id":3,"image_id":1,"category_id":1})";
  EXPECT_NE(checked_file(file).left_out.find(
                "2 of the problems above are in records that were not read: they are left out, "
                "and their objects become background in the images that stay"),
            std::string::npos)
      << checked_file(file).left_out;
}

TEST(Fix, BoxesWhoseIdsComeAgainStay) {
  CheckedFile file;
  file.annotations = box_json("5", "1", "1,1,2,2") + "," + box_json("5", "2", "3,3,2,2") + "," +
                     box_json("9", "2", "3,3,4,4") + "," + box_json("5", "2", "3,3,2,2");
  const Checked checked = checked_file(file);
  EXPECT_NE(checked.problems.find("annotation 5: the id is used 3 times"), std::string::npos);
  EXPECT_EQ(checked.boxes, "1:1:1,1,2,2 2:1:3,3,2,2 2:1:3,3,4,4 ");
  std::vector<int64_t> ids;
  for (const Annotation& a : checked.left.annotations) ids.push_back(a.id);
  EXPECT_EQ(ids, (std::vector<int64_t>{5, 10, 9}));
  EXPECT_NE(checked.left_out.find(
                "1 box appears twice and is kept once;1 box whose id is used twice gets a new id"),
            std::string::npos)
      << checked.left_out;
}

TEST(Fix, ACategoryIdOfTwoNamesLeavesNothing) {
  CheckedFile file;
  file.annotations = box_json("1", "1", "1,1,2,2");
  file.categories = R"({"id":1,"name":"nut"},{"id":1,"name":"bolt"})";
  Checked checked = checked_file(file);
  EXPECT_TRUE(checked.left.images.empty() && checked.left.categories.empty());
  EXPECT_NE(checked.left_out.find("the category id 1 belongs to \"nut\" and to \"bolt\""), std::string::npos);
  file.categories = R"({"id":1,"name":"nut"},{"id":1,"name":"nut"})";
  EXPECT_EQ(checked_file(file).boxes, "1:1:1,1,2,2 ");
}

TEST(Fix, TellsWhichObjectsBecomeBackground) {
  CheckedFile file;
  file.annotations = box_json("1", "1", "1,1,0,2") + "," + box_json("2", "2", "15,3,9,2") + "," +
                     box_json("3", "8", "1,1,2,2");
  const Checked checked = checked_file(file);
  EXPECT_EQ(checked.boxes, "2:1:15,3,5,2 ");
  EXPECT_EQ(
      checked.left_out,
      "1 box of an unknown image is left out;1 box without area inside its image is left out; its object "
      "becomes background;1 box is cut to its image;");
}

// Objects become background only in images that stay: not those of an image whose record has a fault.
TEST(Fix, TellsWhatARecordWithAFaultCosts) {
  CheckedFile file;
  file.annotations = box_json("1", "1", "1,1,2,2") + "," + box_json("2", "2", "3,3,2,2") + "," +
                     box_json("3", "2", "3,3,4,4");
  file.images =
      R"({"id":1,"file_name":"a.png","width":20,"height":10},{"id":2,"file_name":"b.png","width":0,"height":10})";
  EXPECT_EQ(checked_file(file).left_out,
            "1 image is left out because its record has a fault;2 boxes of these images are left out;");
  file.images = CheckedFile().images;
  file.categories = R"({"id":1,"name":null},{"id":2,"name":"bolt"})";
  Checked checked = checked_file(file);
  EXPECT_EQ(checked.left_out,
            "1 category is left out because its record has a fault;3 boxes of such categories are left out; "
            "their objects become background in 2 images;");
  EXPECT_NE(checked.problems.find(
                "annotation 1: category_id 1: this category is left out because its record has a fault"),
            std::string::npos)
      << checked.problems;
  // The same with words as ids.
  file.categories = R"({"id":"nut","name":null},{"id":"bolt","name":"bolt"})";
  file.annotations =
      box_json("1", "1", "1,1,2,2", "\"nut\"") + "," + box_json("2", "2", "3,3,2,2", "\"bolt\"");
  checked = checked_file(file);
  EXPECT_NE(checked.problems.find("category_id \"nut\": this category is left out"), std::string::npos)
      << checked.problems;
  EXPECT_EQ(
      checked.left_out,
      "1 category is left out because its record has a fault;1 of the problems above is in a record that "
      "was not read: it is left out, and its objects become background in the images that stay;");
  // A word among numbers is a fault of its annotation alone.
  file.categories = R"({"id":1,"name":"nut"})";
  file.annotations = box_json("1", "1", "1,1,2,2") + "," + box_json("2", "2", "3,3,2,2", "\"nut\"");
  checked = checked_file(file);
  EXPECT_NE(checked.problems.find("category_id \"nut\" is not in \"categories\""), std::string::npos);
  EXPECT_EQ(checked.remarks.find("are strings"), std::string::npos) << checked.remarks;
}

TEST(Fix, ADamagedFileOfAnImageCostsTheImage) {
  TestFolder dir;
  std::filesystem::create_directories(dir / "xml");
  for (const char* name : {"a.png", "b.png"}) write_png(Image(10, 20), dir / name);
  write_bytes(dir / "xml/a.xml", "<annotation><object>");
  write_bytes(dir / "xml/b.xml",
              "<annotation><object><name>nut</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax>"
              "<ymax>5</ymax></bndbox></object></annotation>");
  GroundTruth left;
  const DatasetReport report = check_dataset({.annotations = dir / "xml", .images = dir.path()}, &left);
  EXPECT_EQ(report.problems.count(), 1);
  EXPECT_EQ(left.images.size(), 1u);
  EXPECT_EQ(joined_lines(report.left_out), "1 image is left out because its record has a fault;");
}

// Boxes are held against the size of the file, which training uses, not against that of the list.
TEST(Units, BoxesBeyondAListedSizeMayBeInsideTheFile) {
  TestFolder dir;
  write_png(Image(10, 20), dir / "a.png");
  write_bytes(dir / "a.json",
              "{\"images\":[{\"id\":1,\"file_name\":\"a.png\",\"width\":5,\"height\":5}],\"annotations\":[" +
                  box_json("1", "1", "6,6,3,3") + R"(],"categories":[{"id":1,"name":"nut"}]})");
  std::vector<std::string> notes;
  open_dataset({.annotations = dir / "a.json", .images = dir.path()}, LabelScheme::kContiguous, &notes);
  ASSERT_EQ(notes.size(), 1u) << fmt::format("{}", fmt::join(notes, "\n"));
  EXPECT_NE(notes[0].find("has 20 x 10 pixels, not 5 x 5"), std::string::npos) << notes[0];
}

// maskrcnn-benchmark #480, mmdetection #11718
TEST(CocoExports, PolygonsAreBoxes) {
  CheckedFile file;
  file.annotations =
      R"({"id":1,"image_id":1,"category_id":1,"area":3,"segmentation":[[1,2,5.5,2,5,8],[0.5,3,1,3,1,4]]},)"
      R"({"id":2,"image_id":2,"category_id":1,"bbox":[3,3,2,2],"segmentation":[[1,2,5,2,5,8]]})";
  Checked checked = checked_file(file);
  EXPECT_EQ(checked.problems, "");
  EXPECT_EQ(checked.boxes, "1:1:0.5,2,5,6 2:1:3,3,2,2 ");
  EXPECT_EQ(checked.left.annotations[0].area, 3);
  EXPECT_NE(checked.remarks.find("1 annotation has no bbox; the box around the polygons"), std::string::npos);
  for (const char* none :
       {"[]", "[[1,2]]", "null", R"({"counts":[200],"size":[10,20]})", "[[1,2,1,4,1,3]]"}) {
    file.annotations = fmt::format(R"({{"id":1,"image_id":1,"category_id":1,"segmentation":{}}})", none);
    EXPECT_NE(checked_file(file).problems.find(
                  "annotation 1: field \"bbox\" is missing, and there are no polygons"),
              std::string::npos)
        << none;
  }
  for (const char* far : {"[[1,1,1e9,1,5,5]]", "[[1,1,5,1,5,-1e300]]"}) {
    file.annotations = fmt::format(R"({{"id":1,"image_id":1,"category_id":1,"segmentation":{}}})", far);
    EXPECT_NE(checked_file(file).problems.find("field \"bbox\" is missing, and its polygons reach beyond"),
              std::string::npos)
        << far;
  }
  for (const char* empty :
       {R"({"counts":[200],"size":[10,20]})", "[[-5,1,-1,1,-1,4]]", "[[1,10,3,10,3,14]]"}) {
    file.annotations =
        fmt::format(R"({{"id":1,"image_id":1,"category_id":1,"bbox":[1,1,2,2],"segmentation":{}}})", empty);
    EXPECT_NE(
        checked_file(file).remarks.find("1 mask has no pixel in the image, for example that of annotation 1"),
        std::string::npos)
        << empty;
  }
}

// Tables of floating-point numbers write such ids.
TEST(CocoExports, IdsMayBeWholeNumbersWithAPoint) {
  CheckedFile file;
  file.images = R"({"id":3.0,"file_name":"a.png"})";
  file.annotations = box_json("7.0", "3.0", "1,1,2,2", "9.0");
  file.categories = R"({"id":9.0,"name":"bolt"})";
  const Checked checked = checked_file(file);
  EXPECT_EQ(checked.problems, "");
  EXPECT_EQ(checked.boxes, "3:9:1,1,2,2 ");
  EXPECT_EQ(checked.left.annotations.at(0).id, 7);
}

// detr #28, mmdetection PR 89, cvat #298, yolact #156
TEST(CocoExports, IdsMayBeWords) {
  CheckedFile file;
  file.images =
      R"({"id":"001","file_name":"a.png","width":"20","height":10.0},{"id":"3","file_name":"b.png"})";
  file.annotations = box_json("\"c33c\"", "\"001\"", "1,1,2,2", "\"nut\"") + "," +
                     box_json("7", "3", "\"3\",3,2,2", "\"9\"") +
                     R"(,{"image_id":"3","category_id":9,"bbox":[1,1,2,2],"iscrowd":"0","area":"4"})";
  file.categories = R"({"id":"nut","name":"nut"},{"id":"9","name":"bolt"})";
  Checked checked = checked_file(file);
  EXPECT_EQ(checked.problems, "");
  EXPECT_EQ(checked.boxes, "4:10:1,1,2,2 3:9:3,3,2,2 3:9:1,1,2,2 ");
  EXPECT_EQ(checked.left.images[0].word, "001");
  EXPECT_EQ(checked.left.images[0].width, 20);
  EXPECT_EQ(checked.left.images[1].width, 0);
  std::vector<int64_t> ids;
  for (const Annotation& a : checked.left.annotations) ids.push_back(a.id);
  EXPECT_EQ(ids, (std::vector<int64_t>{8, 7, 9}));
  for (const char* part :
       {"2 annotations have a string as id, or none", "1 category id is a string", "1 image id is a string"})
    EXPECT_NE(checked.remarks.find(part), std::string::npos) << checked.remarks;
  // Known categories give the numbers.
  DataPaths known;
  known.categories = {{0, "bolt"}, {2, "nut"}};
  file.categories = R"({"id":"x","name":"nut"},{"id":"y","name":"bolt"})";
  file.annotations = box_json("1", "3", "1,1,2,2", "\"y\"") + "," + box_json("2", "3", "1,1,2,2", "\"x\"");
  EXPECT_EQ(checked_file(file, {}, known).boxes, "3:0:1,1,2,2 3:2:1,1,2,2 ");
}

// YOLO-World #535, label-studio-converter #139, mmdetection #6686; and LVIS, which has addresses alone
TEST(CocoExports, FilesAreFoundByNamesOfWindowsAndOfLvis) {
  CheckedFile file;
  file.images =
      R"({"id":1,"file_name":"images\\a.png","width":20,"height":10},{"id":2,"file_name":"b\\c.png","width":20,"height":10},)"
      R"({"id":3,"coco_url":"http://images.cocodataset.org/train2017/d.png","width":20,"height":10},)"
      R"({"id":4,"coco_url":"http://images.cocodataset.org/train2017/e.png","width":20,"height":10})";
  file.annotations = box_json("1", "1", "1,1,2,2");
  const Checked checked = checked_file(file, {"images/a.png", "b\\c.png", "train2017/d.png", "e.png"});
  EXPECT_EQ(checked.problems, "");
  std::string names;
  for (const ImageInfo& image : checked.left.images) names += image.file_name + " ";
  EXPECT_EQ(names, "images/a.png b\\c.png train2017/d.png e.png ");
  EXPECT_NE(checked.remarks.find("1 image is named with \"\\\", as on Windows"), std::string::npos);
}

// rf-detr #60, yolov5 #7291, RT-DETR #92
TEST(CocoExports, AListThatNamesFewerOfTheKnownCategoriesIsOfThem) {
  CheckedFile file;
  file.annotations = box_json("1", "1", "1,1,2,2");
  DataPaths known;
  known.categories = {{1, "nut"}, {2, "bolt"}};
  Checked checked = checked_file(file, {}, known);
  EXPECT_EQ(checked.left.categories.size(), 2u);
  EXPECT_NE(checked.remarks.find("names 1 of the 2 categories; the others have no objects here"),
            std::string::npos);
  for (const char* other : {R"({"id":2,"name":"nut"})", R"({"id":3,"name":"wood"})"}) {
    file.categories = other;
    checked = checked_file(file, {}, known);
    EXPECT_EQ(checked.left.categories.size(), 1u);
    EXPECT_NE(category_conflicts(known.categories, checked.left.categories, "the training set")
                  .at(0)
                  .find("has no category 1 (\"nut\"), which the training set has"),
              std::string::npos);
  }
}

// gluon-cv #609
// Labelbox and Supervisely write zeros instead of a box.
TEST(CocoExports, ABoxOfZerosIsNone) {
  TestFolder dir;
  write_bytes(
      dir / "a.json",
      R"({"images":[{"id":1,"file_name":"a.png"}],"categories":[{"id":1,"name":"nut"}],"annotations":[)"
      R"({"id":1,"image_id":1,"category_id":1,"bbox":[0,0,0,0],"segmentation":[[1,2,5.5,2,5,8]]},)"
      R"({"id":2,"image_id":1,"category_id":1,"bbox":[1,3,4,5],"segmentation":[[1,2,5,2,5,8]]}]})");
  for (const bool masks : {false, true}) {
    const GroundTruth truth =
        read_ground_truth({.annotations = dir / "a.json", .wants = {.boxes = true, .masks = masks}});
    ASSERT_EQ(truth.annotations.size(), 2u);
    EXPECT_EQ(truth.annotations[0].bbox, (std::array<double, 4>{1, 2, 4.5, 6}));
    EXPECT_EQ(truth.annotations[1].bbox, (std::array<double, 4>{1, 3, 4, 5}));
    ASSERT_EQ(truth.notes.size(), 1u);
    EXPECT_EQ(truth.notes[0],
              "1 annotation has a bbox of zeros; the box around the polygons or runs is used");
  }
  // Kept: zeros with nothing to take in their place, and other boxes without an area, which may be intended.
  for (const char* kept : {R"("bbox":[0,0,0,0])", R"("bbox":[0,0,0,0],"segmentation":[])",
                           R"("bbox":[1,2,0,0],"segmentation":[[1,2,5,2,5,8]])"}) {
    CheckedFile file;
    file.annotations = fmt::format(R"({{"id":1,"image_id":1,"category_id":1,{}}})", kept);
    EXPECT_NE(checked_file(file).problems.find("has no area"), std::string::npos) << kept;
  }
}

TEST(Remarks, AnnotationZeroIsTold) {
  CheckedFile file;
  file.annotations = box_json("0", "1", "1,1,2,2");
  EXPECT_NE(checked_file(file).remarks.find("annotation 0: a match with it counts as a false positive"),
            std::string::npos);
}

TEST(Remarks, NamesThatDifferByCaseAreTold) {
  CheckedFile file;
  file.annotations = box_json("1", "1", "1,1,2,2");
  file.categories = R"({"id":1,"name":"bolt"},{"id":2,"name":"Bolt "},{"id":3,"name":"nut"})";
  EXPECT_NE(checked_file(file).remarks.find("the categories \"bolt\" and \"Bolt \" differ only in case"),
            std::string::npos);
}

struct UnitCase {
  std::vector<std::array<double, 4>> boxes;
  double area;  // -1: the box's
  std::string said;
};

// The check prints the same lines as training before its first step.
TEST(Units, AreToldByCheckAndTraining) {
  std::vector<std::array<double, 4>> pixels, parts, corners, corner_parts, centred, sizes;
  for (int i = 0; i < 12; ++i) {
    pixels.push_back({5.0 + i, 4, 3, 2});
    parts.push_back({0.4 + 0.02 * i, 0.4, 0.15, 0.2});
    corners.push_back({8 + 0.5 * i, 4, 11 + 0.5 * i, 9});
    corner_parts.push_back({0.4 + 0.02 * i, 0.6, 0.6 + 0.02 * i, 0.9});
    const double x = 8 + 0.5 * i, x2 = 11 + 0.5 * i;
    centred.push_back({x - x2 / 2, 4 - 9 / 2.0, x2, 9});  // corners that a YOLO file has
    sizes.push_back({x, 6, 3 - x, 2 - 6});                // those that VOC's have for corners
  }
  std::vector<std::array<double, 4>> one_outside = pixels;
  one_outside[3][2] = 300;
  for (
      const UnitCase& c : std::vector<UnitCase>{
          {pixels, -1, ""},
          {parts, -1, "12 of 12 boxes are between 0 and 1: they look like fractions of the image"},
          {corner_parts, -1,
           "12 of 12 boxes are between 0 and 1: they look like fractions of the image and like [x1, y1, x2, y2]"},
          {corners, -1, "the boxes look like [x1, y1, x2, y2], expected [x, y, width, height]"},
          {centred, -1, "the boxes look like [x1, y1, x2, y2], expected [centre x, centre y, width, height]"},
          {sizes, -1, "the boxes look like [x, y, width, height], expected [x1, y1, x2, y2]"},
          {one_outside, -1, "1 of 12 boxes reaches outside its image"},
          {pixels, 0, "all 12 areas are 0; AP_small"},
          {pixels, 20, "12 of 12 areas are larger than their box, for example that of annotation 1"},
          {pixels, 0.02,
           "12 of 12 areas are less than a hundredth of their box, for example that of annotation 1"}}) {
    CheckedFile file;
    TestFolder dir;
    GroundTruth truth{.images = {{.id = 1, .file_name = "a.png", .width = 20, .height = 10}},
                      .categories = {{1, "nut"}}};
    for (const auto& b : c.boxes)
      truth.annotations.push_back({.id = std::ssize(truth.annotations) + 1,
                                   .image_id = 1,
                                   .category_id = 1,
                                   .bbox = b,
                                   .area = c.area < 0 ? b[2] * b[3] : c.area});
    write_bytes(dir / "a.json", coco_json(truth, ""));
    write_png(Image(10, 20), dir / "a.png");
    const DataPaths paths{.annotations = dir / "a.json", .images = dir.path()};
    std::vector<std::string> notes;
    open_dataset(paths, LabelScheme::kContiguous, &notes);
    const DatasetReport report = check_dataset(paths);
    const std::string checked = joined_lines(report.remarks) + joined_lines(report.problems.lines());
    if (c.said.empty()) {
      EXPECT_TRUE(notes.empty()) << notes[0];
      EXPECT_EQ(checked, "");
      continue;
    }
    const bool is_problem = c.said.find("between 0 and 1") != std::string::npos;
    EXPECT_NE(
        joined_lines(notes).find((is_problem ? "warning: " : "note: ") + paths.annotations + ": " + c.said),
        std::string::npos)
        << joined_lines(notes);
    const bool is_listed = c.said.find("reaches outside") != std::string::npos;  // one by one
    EXPECT_NE(checked.find(is_listed ? "reaches outside the image" : c.said), std::string::npos) << checked;
  }
}

TEST(Units, SizesThatDifferFromTheFilesAreTold) {
  TestFolder dir;
  test::make_noise_set(dir, 3);
  std::string text = read_bytes(dir / "a.json");
  text.replace(text.find("\"width\":50"), 10, "\"width\":99");
  write_bytes(dir / "a.json", text);
  const DataPaths paths{.annotations = dir / "a.json", .images = dir.path()};
  std::vector<std::string> notes;
  const auto set = open_dataset(paths, LabelScheme::kContiguous, &notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("1 of 3 images has another size than listed"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("0.png, which has 50 x 40 pixels, not 99 x 40"), std::string::npos) << notes[0];
  notes = check_image_files(*set, paths, 0).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("3 of 3 images were not examined"), std::string::npos) << notes[0];
}

// The areas are too large for a 64-bit float: corners of 1e308 in a CSV file, sides of 1e200 in a COCO box.
TEST(Units, BoxesThatAreNoNumbersAreRefused) {
  TestFolder dir;
  write_bytes(dir / "a.csv",
              "file_name,class,x1,y1,x2,y2\na.png,nut,-1e308,-1e308,1e308,1e308\na.png,nut,1,1,9,9\n");
  CheckedFile file;
  file.annotations = box_json("1", "1", "0,0,1e200,1e200");
  const Checked coco = checked_file(file);
  for (const std::string& problems :
       {joined_lines(check_dataset({.annotations = dir / "a.csv", .images = ""}).problems.lines()),
        coco.problems, input_error([&] {
          open_dataset({dir / "a.csv", ""});
        }),
        input_error([&] {
          read_ground_truth({dir / "a.csv", ""});
        })})
    EXPECT_NE(problems.find("its area is too large for a 64-bit float"), std::string::npos) << problems;
  EXPECT_EQ(coco.boxes, "1:1:0,0,20,10 ");  // cut to its image
}

// An image whose record has a fault is not told again as one that nothing names, nor as one that is unknown.
TEST(DataCheck, AFaultIsToldOnce) {
  const std::string line =
      "<object><name>nut</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>5</ymax></bndbox></object>";
  const std::string voc = "<annotation>" + line + "</annotation>",
                    labelme =
                        R"({"shapes":[{"label":"nut","points":[[1,1],[5,5]],"shape_type":"rectangle"}]})";
  const auto coco = [](const std::string& image, const std::string& id) {
    return R"({"images":[{"id":1,"file_name":"a.png"},)" + image + R"(],"annotations":[)" +
           box_json("1", "1", "1,1,2,2") + "," + box_json("2", id, "1,1,2,2") +
           R"(],"categories":[{"id":1,"name":"nut"}]})";
  };
  struct Row {
    std::vector<std::pair<std::string, std::string>> files;
    std::string annotations;
    std::vector<std::string> problems;
  };
  const std::string left_out = ": this image is left out because its record has a fault";
  for (const auto& [files, annotations, problems] : std::vector<Row>{
           {{{"a.xml", voc}, {"b.xml", "<annotation>"}}, "", {"b.xml: line 1: not valid XML"}},
           {{{"a.json", labelme}, {"b.json", R"({"shapes":7})"}}, "", {"b.json: \"shapes\" must be a list"}},
           {{{"l.csv", "image,class,x1,y1,x2,y2\na.png,nut,1,1,5,5\nb.png,nut,1,1,5\n"}},
            "l.csv",
            {"line 3: expected 6 fields, found 5"}},
           {{{"l.json", coco(R"({"id":2,"file_name":"b.png","width":0})", "2")}},
            "l.json",
            {"image 2: field \"width\" must be", "annotation 2: image_id 2" + left_out}},
           {{{"l.json",
              coco(R"({"id":"b","file_name":"b.png","width":0},{"id":"c","file_name":"c.png"})", "\"b\"")}},
            "l.json",
            {"image number 2 of the list: field \"width\" must be",
             "annotation 2: image_id \"b\"" + left_out}}}) {
    TestFolder dir;
    for (const auto& [name, text] : files) write_bytes(dir / name, text);
    for (const char* name : {"a.png", "b.png"}) write_png(Image(10, 20), dir / name);
    if (files.back().second.find("c.png") != std::string::npos) write_png(Image(10, 20), dir / "c.png");
    const DatasetReport report = check_dataset(
        {.annotations = annotations.empty() ? dir.path() : dir / annotations, .images = dir.path()});
    const std::vector<std::string> lines = report.problems.lines();
    ASSERT_EQ(lines.size(), problems.size()) << joined_lines(lines);
    for (size_t i = 0; i < lines.size(); ++i)
      EXPECT_NE(lines[i].find(problems[i]), std::string::npos) << lines[i];
    const std::string remarks = joined_lines(report.remarks);
    EXPECT_EQ(remarks.find("left out"), std::string::npos) << remarks;
  }
}

TEST(DataCheck, OddNamesAreTold) {
  const std::vector<std::string> remarks = remarks_on_names({{1, ""}, {2, "a\tb"}, {3, "\xC3\xA9"}});
  EXPECT_EQ(remarks, (std::vector<std::string>{"category 1 has an empty name",
                                               "the name of category 2, \"a\\tb\", has control characters"}));
}

// COCO's polygons are pixels.
TEST(DataCheck, PolygonsOfFractionsAreTold) {
  CheckedFile file;
  file.annotations =
      R"({"id":1,"image_id":1,"category_id":1,"bbox":[2,2,8,6],"segmentation":[[0.1,0.2,0.5,0.2,0.5,0.8]]},)"
      R"({"id":2,"image_id":2,"category_id":1,"bbox":[1,1,3,3],"segmentation":[[1,1,4,1,4,4]]})";
  const std::string remarks = checked_file(file).remarks;
  EXPECT_NE(
      remarks.find("the polygons of 1 object are between 0 and 1: they look like fractions of the image, "
                   "expected pixels; for example those of annotation 1"),
      std::string::npos)
      << remarks;
  EXPECT_EQ(remarks.find("no pixel"), std::string::npos) << remarks;
}

// Sizes that the list lacks are read from the files.
TEST(DataCheck, ListsWithoutSizesAreHeldAgainstTheImages) {
  TestFolder dir;
  std::string table = "file_name,class,x1,y1,x2,y2\n";
  for (int i = 0; i < 12; ++i) {
    write_png(Image(20, 40), dir / fmt::format("{}.png", i));
    table += fmt::format("{}.png,a,45,5,60,15\n", i);
  }
  write_bytes(dir / "a.csv", table);
  const DataPaths paths{.annotations = dir / "a.csv", .images = dir.path()};
  std::vector<std::string> notes;
  open_dataset(paths, LabelScheme::kContiguous, &notes);
  ASSERT_EQ(notes.size(), 1u) << fmt::format("{}", fmt::join(notes, "\n"));
  EXPECT_NE(notes[0].find("12 of 12 boxes have no area inside their image"), std::string::npos) << notes[0];
  const std::string problems = joined_lines(check_dataset(paths).problems.lines());
  EXPECT_NE(problems.find("the box [45, 5, 15, 10] lies outside the image of 40 x 20 pixels"),
            std::string::npos)
      << problems;
}

}  // namespace
}  // namespace saccade
