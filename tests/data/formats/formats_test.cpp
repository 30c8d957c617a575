// Tests YOLO, Pascal VOC and CSV against COCO, and the usual layouts of folders. Malformed files are in
// tests/train/bad_inputs/formats.table.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

void write_below(const TestFolder& dir, const std::string& name, const std::string& text) {
  fs::create_directories(fs::path(dir / name).parent_path());
  write_bytes(dir / name, text);
}

void write_image(const TestFolder& dir, const std::string& name, int64_t height = 20, int64_t width = 40) {
  fs::create_directories(fs::path(dir / name).parent_path());
  write_png(Image(height, width), dir / name);
}

std::string boxes_text(const GroundTruth& truth) {
  std::string text;
  for (const Annotation& a : truth.annotations)
    text += fmt::format("{}:{}:{},{},{},{} ", a.image_id, a.category_id, a.bbox[0], a.bbox[1], a.bbox[2],
                        a.bbox[3]);
  return text;
}

constexpr const char* kXml =
    "<annotation><filename>b.png</filename><size><width>40</width><height>20</height></size>"
    "<object><name>dog</name><part><name>x</name><bndbox><xmin>0</xmin></bndbox></part>"
    "<bndbox><xmin>4</xmin><ymin>2</ymin><xmax>14</xmax><ymax>12.5</ymax></bndbox></object>"
    "<object><name>cat</name><bndbox><xmax>9</xmax><xmin>1</xmin><ymin>0</ymin><ymax>3</ymax></bndbox></object>"
    "</annotation>";

TEST(Yolo, ReadsBoxesPolygonsAndNames) {
  TestFolder dir;
  write_below(dir, "data.yaml",
              "path: .\ntrain: images/train # all\nval: images/val\nnames:\n  1: dog\n  0: 'a cat'\n");
  for (const char* name : {"b", "a", "deep/c"}) write_image(dir, fmt::format("images/train/{}.png", name));
  write_below(dir, "labels/train/b.txt", "0 0.225 0.3625 0.25 0.525\r\n1 0.1 0.1 0.3 0.1 0.2 0.5\n\n");
  write_below(dir, "labels/train/deep/c.txt", "1\t0.5 0.5 1 1\n");
  auto set = open_dataset({dir / "data.yaml", dir / "images/train"});
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"a cat", "dog"}));
  ASSERT_EQ(set->num_images(), 3);
  EXPECT_EQ(set->file_name(0), "a.png");
  EXPECT_EQ(set->file_name(2), "deep/c.png");
  EXPECT_EQ(boxes_text(set->ground_truth()), "2:1:4,2,10,10.5 2:2:4,2,8,8 3:2:0,0,40,20 ");
  // Without a folder of images the yaml's own is used; classes go by name where they are known.
  EXPECT_EQ(open_dataset({.annotations = dir / "data.yaml", .images = "", .split = "train"})->num_images(),
            3);
  EXPECT_NE(input_error([&] {
              open_dataset({dir / "data.yaml", ""});
            }).find("names the images of several splits"),
            std::string::npos);
  DataPaths known{dir / "data.yaml", dir / "images/train"};
  known.categories = {{7, "dog"}, {9, "a cat"}};
  EXPECT_EQ(boxes_text(open_dataset(known)->ground_truth()), "2:9:4,2,10,10.5 2:7:4,2,8,8 3:7:0,0,40,20 ");
}

TEST(Voc, ReadsFoldersAndImageSets) {
  TestFolder dir;
  write_below(dir, "Annotations/x.xml", kXml);
  write_below(dir, "Annotations/a.xml", "<annotation><filename>wrong.png</filename></annotation>");
  write_image(dir, "JPEGImages/b.png");
  write_image(dir, "JPEGImages/a.png");
  auto set = open_dataset({dir / "Annotations", dir / "JPEGImages"});
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(set->num_images(), 2);
  EXPECT_EQ(set->file_name(0), "a.png");
  EXPECT_EQ(boxes_text(set->ground_truth()), "2:2:4,2,10,10.5 2:1:1,0,8,3 ");
  write_below(dir, "classes.txt", "dog\ncat\nbird\n\n");
  write_below(dir, "ImageSets/Main/train.txt", "x\n");
  set = open_dataset({dir / "ImageSets/Main/train.txt", dir / "JPEGImages"});
  EXPECT_EQ(set->num_images(), 1);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"dog", "cat", "bird"}));
  EXPECT_EQ(boxes_text(set->ground_truth()), "1:1:4,2,10,10.5 1:2:1,0,8,3 ");
}

TEST(ClassList, IsReadAndChecked) {
  TestFolder dir;
  write_below(dir, "classes.txt", "cat\r\nsmall dog\n\n");
  EXPECT_EQ(read_class_list(dir / "classes.txt"), (std::vector<std::string>{"cat", "small dog"}));
  write_below(dir, "twice.txt", "cat\ndog\ncat\n");
  EXPECT_NE(input_error([&] { read_class_list(dir / "twice.txt"); }).find("the class \"cat\" appears twice"),
            std::string::npos);
  write_below(dir, "none.txt", "\n");
  EXPECT_NE(input_error([&] { read_class_list(dir / "none.txt"); }).find("has no class names"),
            std::string::npos);
}

TEST(ImageList, PassesOverWhatIsHidden) {
  TestFolder dir;
  for (const char* name : {"b/c.png", "a.jpg", ".d.png", ".cache/e.png", "b/.f.jpg", "b/notes.txt"})
    write_below(dir, name, "");
  EXPECT_EQ(list_tree(dir.path()).images, (std::vector<std::string>{"a.jpg", "b/c.png"}));
}

TEST(Voc, NamesMustFitEachOtherAndWhatIsKnown) {
  TestFolder dir;
  write_image(dir, "b.png");
  write_bytes(dir / "b.xml", kXml);
  write_bytes(dir / "c.xml", kXml);
  EXPECT_NE(input_error([&] {
              open_dataset({dir.path(), dir.path()});
            }).find("belongs to the image b.png, as does"),
            std::string::npos);
  fs::remove(dir / "c.xml");
  DataPaths known{dir.path(), dir.path()};
  known.categories = {{1, "dog"}};
  EXPECT_NE(input_error([&] { open_dataset(known); }).find("the class \"cat\" is unknown, expected \"dog\""),
            std::string::npos);
}

TEST(Csv, ReadsTheUsualColumns) {
  TestFolder dir;
  write_bytes(
      dir / "a.csv",
      "\xEF\xBB\xBF"
      "filename,width,height,class,xmin,ymin,xmax,ymax,confidence\r\n"
      "\"b, \"\"1\"\".png\",40,20,dog,4,2,14,12.5,\r\n\na.png,40,20,,,,,,\n\"b, \"\"1\"\".png\",40,20,cat,1,0,9,3,x");
  auto set = open_dataset({dir / "a.csv", ""});
  ASSERT_EQ(set->num_images(), 2);
  EXPECT_EQ(set->file_name(0), "b, \"1\".png");
  EXPECT_EQ(set->ground_truth().images[1].width, 40);
  EXPECT_EQ(boxes_text(set->ground_truth()), "1:2:4,2,10,10.5 1:1:1,0,8,3 ");
}

std::string describe(const TestFolder& dir, const DataSplits& splits) {
  std::string text = splits.format;
  for (const SplitNames& names : split_names())
    if (const auto& paths = splits.*names.split)
      text += fmt::format(" | {} {} {}", names.names[0],
                          fs::path(paths->annotations).lexically_relative(dir.path()).string(),
                          fs::path(paths->images).lexically_relative(dir.path()).string());
  return text;
}

TEST(Layouts, AreFound) {
  struct Case {
    std::vector<std::string> files;  // folders where they end in a slash
    std::string expected;
  };
  for (
      const Case& c : std::vector<Case>{
          {{"train/_annotations.coco.json", "valid/_annotations.coco.json", "test/_annotations.coco.json",
            "README.roboflow.txt"},
           "coco | train train/_annotations.coco.json train | val valid/_annotations.coco.json valid | test "
           "test/_annotations.coco.json test"},
          {{"annotations/instances_train2017.json", "annotations/instances_val2017.json",
            "annotations/captions_val2017.json", "train2017/", "val2017/"},
           "coco | train annotations/instances_train2017.json train2017 | val annotations/instances_val2017.json val2017"},
          {{"annotations/train.json", "annotations/val.json", "images/"},
           "coco | train annotations/train.json images | val annotations/val.json images"},
          {{"annotations.json", "images/"}, "coco | train annotations.json images"},
          {{"train/annotations.json", "train/images/", "val/annotations.json", "val/images/"},
           "coco | train train/annotations.json train/images | val val/annotations.json val/images"},
          {{"data.yaml", "train/images/", "valid/images/"},
           "yolo | train data.yaml train/images | val data.yaml valid/images"},
          {{"classes.txt", "images/", "labels/"}, "yolo | train classes.txt images"},
          {{"Annotations/a.xml", "JPEGImages/", "ImageSets/Main/train.txt", "ImageSets/Main/val.txt"},
           "voc | train ImageSets/Main/train.txt JPEGImages | val ImageSets/Main/val.txt JPEGImages"},
          {{"Annotations/a.xml", "JPEGImages/", "ImageSets/Main/val.txt", "ImageSets/Main/valid.txt"},
           "voc | val ImageSets/Main/val.txt JPEGImages"},
          {{"train/a.xml", "valid/b.xml"}, "voc | train train train | val valid valid"},
          {{"annotations/a.xml", "images/"}, "voc | train annotations images"},
          {{"train/_annotations.csv", "test/_annotations.csv"},
           "csv | train train/_annotations.csv train | test test/_annotations.csv test"},
          {{"train.csv", "val.csv", "images/"}, "csv | train train.csv images | val val.csv images"},
          {{"annotations.csv", "images/"}, "csv | train annotations.csv images"},
          // Names with capitals.
          {{"annotations/instances_Train.json", "annotations/instances_Validation.json", "images/Train/",
            "images/Validation/"},
           "coco | train annotations/instances_Train.json images/Train | val annotations/instances_Validation.json "
           "images/Validation"},
          {{"Train/_annotations.coco.json", "VALID/_annotations.coco.json"},
           "coco | train Train/_annotations.coco.json Train | val VALID/_annotations.coco.json VALID"},
          {{"TRAIN/_annotations.csv", "Test/_annotations.csv"},
           "csv | train TRAIN/_annotations.csv TRAIN | test Test/_annotations.csv Test"},
          {{"Train/a.xml", "Val/b.xml"}, "voc | train Train Train | val Val Val"},
          {{"classes.txt", "images/Train/", "images/Val/", "labels/Train/", "labels/Val/"},
           "yolo | train classes.txt images/Train | val classes.txt images/Val"}}) {
    TestFolder dir;
    for (const std::string& file : c.files) {
      fs::create_directories(file.ends_with("/") ? fs::path(dir / file) : fs::path(dir / file).parent_path());
      // As Roboflow writes it, the paths are relative to another folder than the file's own.
      if (!file.ends_with("/"))
        write_bytes(dir / file, "train: ../train/images\nval: ../valid/images\nnames: ['a']\n");
    }
    EXPECT_EQ(describe(dir, find_splits(dir.path())), c.expected);
  }
  TestFolder dir;
  EXPECT_NE(input_error([&] {
              find_splits(dir.path());
            }).find("no data set found in the folder, expected one of these layouts: coco ("),
            std::string::npos);
  EXPECT_NE(input_error([&] { find_splits(dir / "none"); }).find("no such folder"), std::string::npos);
  write_bytes(dir / "compose.yaml", "services: []\n");
  write_bytes(dir / "train.csv", "");
  write_bytes(dir / "train.json", "");
  EXPECT_NE(
      input_error([&] {
        find_splits(dir.path());
      }).find("holds data sets in the formats coco and csv, expected one of them: --data with its file"),
      std::string::npos);
}

TEST(Layouts, SplitsThatAreReadAsOneSetAreTold) {
  TestFolder dir;
  for (const char* split : {"train", "Val"}) {
    write_below(dir, fmt::format("Annotations/batch/{}/a.xml", split), kXml);
    fs::create_directories(fs::path(dir / "JPEGImages") / split);
  }
  const DataSplits splits = find_splits(dir.path());
  ASSERT_TRUE(splits.train && !splits.val);
  ASSERT_EQ(splits.notes.size(), 1u);
  EXPECT_NE(splits.notes[0].find("Annotations/batch/train and "), std::string::npos) << splits.notes[0];
  EXPECT_NE(splits.notes[0].find("Annotations/batch/Val are read as one set"), std::string::npos)
      << splits.notes[0];
}

TEST(Layouts, ValidationImagesAreDrawnByNameAndSeed) {
  TestFolder dir;
  GroundTruth truth{.categories = {{1, "a"}}};
  for (int i = 0; i < 40; ++i) {
    truth.images.push_back({.id = i, .file_name = fmt::format("{}.png", i), .width = 9, .height = 9});
    truth.annotations.push_back({.id = i, .image_id = i, .category_id = 1, .bbox = {1, 1, 2, 2}, .area = 4});
  }
  auto names_of = [&](Part part, uint64_t seed, double share) {
    DataPaths paths{.part = part, .val_fraction = share, .seed = seed};
    const GroundTruth some = part_of(truth, paths);
    EXPECT_EQ(some.annotations.size(), some.images.size());
    std::set<std::string> names;
    for (const ImageInfo& image : some.images) names.insert(image.file_name);
    return names;
  };
  const auto val = names_of(Part::kValidation, 1, 0.25), rest = names_of(Part::kTraining, 1, 0.25);
  EXPECT_EQ(val.size(), 10u);
  EXPECT_EQ(rest.size(), 30u);
  for (const std::string& name : val) EXPECT_FALSE(rest.contains(name));
  EXPECT_NE(names_of(Part::kValidation, 2, 0.25), val);
  EXPECT_EQ(names_of(Part::kValidation, 1, 0.001).size(), 1u);
  std::reverse(truth.images.begin(), truth.images.end());
  for (ImageInfo& image : truth.images) image.id += 100;
  for (Annotation& a : truth.annotations) a.image_id += 100;
  EXPECT_EQ(names_of(Part::kValidation, 1, 0.25), val) << "ids and order have no say";

  write_bytes(dir / "annotations.json", "");
  DataSplits splits = find_splits(dir.path());
  EXPECT_NE(draw_validation(splits, 0.1, 5).find("10 % of the training images, drawn with seed 5"),
            std::string::npos);
  EXPECT_EQ(splits.val->annotations, splits.train->annotations);
  EXPECT_EQ(draw_validation(splits, 0.1, 5), "") << "there is one now";
}

// --fix leaves out every fault of a set, so that what is left has none.
TEST(Fix, LeavesWhatIsRight) {
  TestFolder dir;
  write_image(dir, "images/a.png");
  write_image(dir, "images/b.png");
  write_bytes(dir / "images/broken.png", "no image");
  write_bytes(dir / "a.json", R"({"images":[
    {"id":1,"file_name":"a.png","width":40,"height":20},{"id":1,"file_name":"a.png","width":40,"height":20},
    {"id":2,"file_name":"b.png","width":40,"height":20},{"id":3,"file_name":"broken.png","width":4,"height":4},
    {"id":4,"file_name":"none.png","width":4,"height":4},{"id":5,"file_name":"b.png","width":4,"height":4},
    {"id":6,"file_name":"../a.json","width":4,"height":4}],
    "annotations":[{"id":1,"image_id":1,"category_id":1,"bbox":[1,2,3,4]},{"id":2,"image_id":1,"category_id":1,"bbox":[30,5,20,6]},
    {"id":3,"image_id":1,"category_id":1,"bbox":[1,2,0,4]},{"id":4,"image_id":1,"category_id":2,"bbox":[1,2,3,4]},
    {"id":5,"image_id":9,"category_id":1,"bbox":[1,2,3,4]},{"id":1,"image_id":2,"category_id":1,"bbox":[1,2,3,4]},
    {"id":7,"image_id":3,"category_id":1,"bbox":[1,2,3,1]},{"id":8,"image_id":2,"category_id":1,"bbox":[1,2,3,1],"area":-1},
    {"id":9,"image_id":2,"category_id":1,"bbox":[50,2,3,1]},{"id":10,"image_id":2,"category_id":1,"bbox":[1,2,3]}],
    "categories":[{"id":1,"name":"a"}]})");
  GroundTruth left;
  const DatasetReport report =
      check_dataset({.annotations = dir / "a.json", .images = dir / "images"}, &left);
  EXPECT_GE(report.problems.count(), 12);
  EXPECT_EQ(left.images.size(), 2u);
  EXPECT_EQ(boxes_text(left), "1:1:1,2,3,4 1:1:30,5,10,6 2:1:1,2,3,4 2:1:1,2,3,1 ");
  write_bytes(dir / "fixed.json", coco_json(left, "a \"test\""));
  GroundTruth again;
  EXPECT_TRUE(check_dataset({.annotations = dir / "fixed.json", .images = dir / "images"}, &again)
                  .problems.lines()
                  .empty());
  EXPECT_EQ(boxes_text(again), boxes_text(left));
}

TEST(Fix, EveryFormatListsAllFaults) {
  TestFolder dir;
  write_image(dir, "images/b.png");
  write_below(dir, "data.yaml", "names: [cat, dog]\n");
  write_below(dir, "labels/b.txt", "9 0 0 1 1\n0 0.5 0.5 0.5 0.5\nx\n");
  write_below(dir, "boxes.csv",
              "image,class,x1,y1,x2,y2\nb.png,cat,1,1,1,1\nb.png,cat,10,5,30,15\nb.png,cat,1,1\n");
  write_below(dir, "xml/b.xml", std::string("<annotation><object/>") + (kXml + 12));
  write_below(dir, "xml/c.xml", "<");
  for (const auto& [annotations, problems, boxes] :
       std::vector<std::tuple<std::string, int, std::string>>{{"data.yaml", 2, "1:1:10,5,20,10 "},
                                                              {"boxes.csv", 2, "1:1:10,5,20,10 "},
                                                              {"xml", 2, "1:2:4,2,10,10.5 1:1:1,0,8,3 "}}) {
    GroundTruth left;
    const DatasetReport report =
        check_dataset({.annotations = dir / annotations, .images = dir / "images"}, &left);
    EXPECT_EQ(report.problems.count(), problems) << annotations;
    EXPECT_EQ(boxes_text(left), boxes) << annotations;
    ASSERT_EQ(left.images.size(), 1u) << annotations;
    EXPECT_EQ(left.images[0].width, 40) << annotations;
  }
}

}  // namespace
}  // namespace saccade
