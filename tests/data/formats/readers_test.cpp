// Tests data sets as people have them: what is named is used or refused by its name, and what is skipped is
// reported.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/findings.h"
#include "data/formats/data_format.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "tests/data/formats/reader_rows.h"
#include "tests/data/formats/test_sets.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::both;
using test::check_reading;
using test::Files;
using test::make;
using test::read_all;
using test::without;

const std::string kNames = "names: [bolt, nut]\n", kBox = "0 0.5 0.5 0.5 0.5\n";

// Returns files images/NAME.png with labels.
Files labelled(const std::vector<std::string>& names) {
  Files files;
  for (const std::string& name : names) {
    files.emplace_back("images/" + name + ".png", "");
    files.emplace_back("labels/" + name + ".txt", kBox);
  }
  return files;
}

TEST(YoloReader, TakesWhatDataYamlNames) {
  const Files set = labelled({"a/1", "a/2", "b/3", "c/4"});
  check_reading({
      {both(set, {{"data.yaml", kNames + "train: [images/a, images/b]\nval:\n  - images/c\n"}}),
       {"yolo train: a/1.png(1) a/2.png(1) b/3.png(1) | val: 4.png(1)"}},
      {both(set, {{"data.yaml", kNames + "path: .\ntrain: train.txt\nval: lists/val.txt\n"},
                  {"train.txt", "\xEF\xBB\xBF./images/b/3.png\r\n\r\nimages\\a\\1.png \r\n"},
                  {"lists/val.txt", "images/c/4.png\n"}}),
       {"yolo train: images/b/3.png(1) images/a/1.png(1) | val: images/c/4.png(1)\n",
        "is not listed and is left out, for example images/a/2.png"}},
      {both(set, {{"set.yml", kNames + "train: [one.txt, images/c]\nval: images/a\n"},
                  {"one.txt", "images/b/3.png\nimages/c/4.png\n"}}),
       {"yolo train: images/b/3.png(1) images/c/4.png(1) | val: 1.png(1) 2.png(1)",
        "1 image is named more than once and counts once, for example images/c/4.png"}},
      {both(labelled({"train/1", "val/2"}), {{"data.yaml", kNames}}),
       {"yolo train: 1.png(1) | val: 2.png(1)"}},
      {both(set, {{"data.yaml", kNames + "train: images/a\nval: images/trian\n"}}),
       {"error: data.yaml: line 3: val: \"images/trian\": no such folder or list of images"}},
      {both(set, {{"data.yaml", kNames + "train: [images/a, images/none]\nval: images/b\n"}}),
       {"error: data.yaml: line 2: train: \"images/none\": no such folder or list of images"}},
      {both(set, {{"data.yaml", kNames + "train: images/a/1.png\n"}}),
       {"error: data.yaml: line 2: train: \"images/a/1.png\": expected a folder of images or a list of them (.txt)"}},
      {both(set, {{"data.yaml", kNames + "train: images/a\nval: images/b\ntest: ../test/images\n"}}),
       {"yolo train: 1.png(1) 2.png(1) | val: 3.png(1)\ndata.yaml: line 4: test: \"../test/images\": no such folder or list of "
        "images; so there are no test images\nlabels/c holds labelled data but is not one of the splits and is left out"}},
      {both(set, {{"data.yaml", kNames + "train: list.txt\n"},
                  {"list.txt", "images/a/1.png\nimages/a/none.png\n"}}),
       {"error: images/a/none.png: no such file (list.txt: line 2)"}},
      {both(set,
            {{"data.yaml", kNames + "train: list.txt\n"}, {"list.txt", "images/a/1.png\n/etc/none.png\n"}}),
       {"error: ", "the file name is absolute"}},
      {both(set, {{"one.yaml", kNames + "train: images/a\nval: images/b\n"},
                  {"two.yaml", kNames + "train: images/b\nval: images/c\n"}}),
       {"error: ", "one.yaml, ", "each describe a data set, expected one of them instead of the folder"}},
      {both(set, {{"one.yaml", kNames + "train: images/a\nval: images/b\n"},
                  {"two.yaml", kNames + "train: images/b\nval: images/c\n"}}),
       {"yolo train: 3.png(1) | val: 4.png(1)\nlabels/a holds labelled data but is not one of the splits and is left out"},
       "two.yaml"},
      {both(set, {{"data.yaml", "nc: 3\n" + kNames + "train: images/a\n"}}),
       {"error: data.yaml: line 1: nc: 3, but there are 2 names"}},
      // Darknet's and CVAT's
      {both(
           set,
           {{"obj.data",
             "classes = 2\ntrain = data/train.txt\nvalid = data/val.txt\nnames = data/obj.names\nbackup = backup/\n"},
            {"obj.names", "bolt\nnut\n"},
            {"train.txt", "data/obj_train_data/x.png\n"},
            {"val.txt", "images/b/3.png\n"},
            {"obj_train_data/x.png", ""},
            {"obj_train_data/x.txt", kBox}}),
       {"yolo train: obj_train_data/x.png(1) | val: images/b/3.png(1)\n",
        "are not listed and are left out, for example images/a/1.png"}},
      {both(set,
            {{"obj.data", "train = data/train.txt\nnames = data/obj.names\n"}, {"obj.names", "bolt\nnut\n"}}),
       {"error: obj.data: line 1: train: \"data/train.txt\": no such folder or list of images"}},
      // labelImg's
      {{{"classes.txt",
         "\xEF\xBB\xBF"
         "bolt \nnut\n"},
        {"1.png", ""},
        {"1.txt", kBox},
        {"2.png", ""},
        {"2.txt", ""},
        {"README.txt", "of no use"}},
       {"yolo train: 1.png(1) 2.png"}},
      {{{"train/classes.txt", "bolt\n"},
        {"train/1.png", ""},
        {"train/1.txt", kBox},
        {"val/classes.txt", "bolt\n"},
        {"val/2.png", ""},
        {"val/2.txt", kBox}},
       {"yolo train: 1.png(1) | val: 2.png(1)"}},
      {both(labelled({"train/1", "val/2"}), {{"classes.txt", "bolt\n"}}),
       {"yolo train: 1.png(1) | val: 2.png(1)"}},
  });
}

TEST(YoloReader, SaysWhatItPassesOver) {
  const std::string yaml = kNames + "train: images\n";
  TestFolder linked;
  make(linked, both(labelled({"1"}), {{"data.yaml", yaml}, {"other/2.png", ""}}));
  fs::create_directory_symlink("../other", linked / "images/more");
  const std::string text = read_all(linked);
  EXPECT_TRUE(text.starts_with("yolo train: 1.png(1) more/2.png\n")) << text;
  EXPECT_NE(text.find("1 link to a folder in images leads out of it and is followed, for example more (to "),
            std::string::npos)
      << text;
  check_reading({
      {both(labelled({"1", "2"}),
            {{"data.yaml", yaml}, {"images/3.png", ""}, {"images/4.png", ""}, {"labels/3.png.txt", kBox}}),
       {"yolo train: 1.png(1) 2.png(1) 3.png 4.png\n",
        "note: data.yaml: 2 of 4 images in images have no label file and count as images without objects, for example 3.png "
        "(expected labels/3.txt)",
        "note: data.yaml: 1 label file belongs to no image, for example labels/3.png.txt"}},
      {both(labelled({"1"}), {{"data.yaml", yaml}, {"images/2.heic", "x"}, {"images/3.jxl", "x"}}),
       {"yolo train: 1.png(1)\nnote: data.yaml: 2 images in images are of an unsupported type (expected JPEG, PNG, BMP, WebP, GIF or TIFF) and left out, for example 2.heic"}},
      {both(labelled({"1"}), {{"data.yaml", yaml}, {"images/2.png", ""}, {"labels/2.TXT", kBox}}),
       {"yolo train: 1.png(1) 2.png(1)"}},
      // Labels are next to some of the images, and in a separate folder of labels.
      {both(labelled({"1"}), {{"data.yaml", yaml},
                              {"images/more/images/2.png", ""},
                              {"images/more/images/2.txt", kBox},
                              {"images/deep/images/3.png", ""},
                              {"images/deep/labels/3.txt", kBox}}),
       {"yolo train: 1.png(1) deep/images/3.png(1) more/images/2.png(1)"}},
      {both(labelled({"1"}),
            {{"data.yaml", yaml}, {"labels/classes.txt", "bolt\n"}, {"images/1.txt", "a caption of it"}}),
       {"yolo train: 1.png(1)"}},
  });
}

TEST(YoloReader, KeyPointsAndOrientedBoxes) {
  const Files one{{"images/1.png", ""}};
  const std::string yaml = kNames + "train: images\n";
  auto boxes = [](const Files& files) {
    TestFolder dir;
    make(dir, files);
    std::vector<std::string> notes;
    const auto set = open_dataset(*find_splits(dir.path()).train, LabelScheme::kContiguous, &notes);
    std::string text;
    for (const Annotation& a : set->ground_truth().annotations)
      text += fmt::format("{},{},{},{} ", a.bbox[0], a.bbox[1], a.bbox[2], a.bbox[3]);
    for (const std::string& note : notes) text += without(note, dir.path() + "/");
    return text;
  };
  const std::string points2 = "0 0.5 0.5 0.2 0.2 0.45 0.45 0.55 0.55\n",
                    points3 = "0 0.5 0.5 0.2 0.2 0.45 0.45 2 0.55 0.55 1\n";
  EXPECT_EQ(boxes(both(one, {{"data.yaml", yaml + "kpt_shape: [2, 2]\n"}, {"labels/1.txt", points2 + kBox}})),
            "16,8,8,4 10,5,20,10 ");
  EXPECT_EQ(boxes(both(one, {{"data.yaml", yaml + "kpt_shape: [2, 3]\n"}, {"labels/1.txt", points3}})),
            "16,8,8,4 ");
  check_reading(
      {{both(one, {{"data.yaml", yaml + "kpt_shape: [2, 3]\n"}, {"labels/1.txt", kBox + points2}}),
        {"error: labels/1.txt: line 2: expected a class, a box of 4 numbers and 2 key points of 3 numbers (kpt_shape); found 9 words"}},
       {both(one, {{"data.yaml", yaml + "kpt_shape: 17\n"}}),
        {"error: data.yaml: line 3: kpt_shape: expected the count", "[17, 3]"}}});
  EXPECT_NE(
      boxes(both(one, {{"data.yaml", yaml}, {"labels/1.txt", points3 + points3 + points3}}))
          .find(
              "3 lines of labels have 11 words and look like key points, but are read as polygons; \"kpt_shape: [2, 3]\""),
      std::string::npos);
  EXPECT_EQ(
      boxes(both(one, {{"data.yaml", yaml}, {"labels/1.txt", "0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n" + kBox}})),
      "4,2,16,8 10,5,20,10 note: data.yaml: 1 of 2 lines of labels is an oriented box; the upright box around each is used");
}

std::string xml(const std::string& file, const std::string& objects) {
  return "<annotation><filename>" + file + "</filename><size><width>40</width><height>20</height></size>" +
         objects + "</annotation>";
}

std::string object(const std::string& name, const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more +
         "<bndbox><xmin>4</xmin><ymin>2</ymin><xmax>14</xmax><ymax>12</ymax></bndbox></object>";
}

TEST(VocReader, TakesWhatImageSetsName) {
  auto voc = [](const std::vector<std::string>& stems) {
    Files files;
    for (const std::string& stem : stems) {
      files.emplace_back("JPEGImages/" + stem + ".png", "");
      files.emplace_back("Annotations/" + stem + ".xml", xml("", object("cat")));
    }
    return files;
  };
  check_reading({
      {both(voc({"1", "2", "3"}),
            {{"ImageSets/Main/trainval.txt", "1\n2 -1\n"}, {"ImageSets/Main/test.txt", "3.png\r\n"}}),
       {"voc train: 1.png(1) 2.png(1) | test: 3.png(1)"}},
      {both(voc({"cam1/1", "cam 2/1"}), {{"ImageSets/Main/default.txt",
                                          "\xEF\xBB\xBF"
                                          "cam1/1\n\"cam 2/1\"\n"}}),
       {"voc train: cam 2/1.png(1) cam1/1.png(1)"}},
      {voc({"cam1/1", "2"}), {"voc train: 2.png(1) cam1/1.png(1)"}},
      {both(voc({"1", "2"}), {{"ImageSets/Segmentation/train.txt", "1\n"},
                              {"ImageSets/Segmentation/val.txt", "2\n"},
                              {"ImageSets/Layout/test.txt", "1\n"}}),
       {"voc train: 1.png(1) | val: 2.png(1)"}},
      {both(voc({"1", "2"}), {{"ImageSets/train.txt", "1\n"}, {"ImageSets/valid.txt", "2\n"}}),
       {"voc train: 1.png(1) | val: 2.png(1)"}},
      {both(voc({"1"}), {{"ImageSets/Main/mine.txt", "1\n"}}),
       {"voc train: 1.png(1)\nImageSets/Main: has no list called train, trainval, val, test or default (but for example mine.txt), so all "
        "annotations are used"}},
      {both(voc({"1"}), {{"ImageSets/Main/train.txt", "1\n../1\n"}}),
       {"error: ImageSets/Main/train.txt: line 2: expected the name of an annotation, found \"../1\""}},
      {both(voc({"1"}), {{"ImageSets/Main/train.txt", "1\n7\n"}}),
       {"error: ImageSets/Main/train.txt: line 2: Annotations/7.xml: no such file"},
       ""},
      {both(voc({"1"}), {{"JPEGImages/2.png", ""}, {"JPEGImages/3.heic", "x"}}),
       {"note: Annotations: 1 image in JPEGImages has no XML file in Annotations and is left out, for example 2.png",
        "1 image in JPEGImages is of an unsupported type"}},
      // All files contain the name of the first image.
      {{{"a/", ""},
        {"Annotations/1.xml", xml("1.png", object("cat"))},
        {"Annotations/2.xml", xml("1.png", object("cat"))},
        {"JPEGImages/1.png", ""},
        {"JPEGImages/2.png", ""}},
       {"voc train: 1.png(1) 2.png(1)\nnote: Annotations: 1 XML file names another image than the one with its own name, which is used, for example "
        "Annotations/2.xml (<filename> 1.png)"}},
      {{{"train/Annotations/1.xml", xml("1.png", object("cat"))}, {"train/images/1.png", ""}},
       {"voc train: 1.png(1)"}},
      {{{"Annotations/1.xml", xml("sub\\x.png", object("cat"))}, {"images/sub/x.png", ""}},
       {"voc train: sub/x.png(1)"}},
      // The splits are folders of both, or of the annotations alone, whose images nobody misses.
      {{{"Annotations/Train/1.xml", xml("1.png", object("cat"))},
        {"Annotations/Val/2.xml", xml("2.png", object("cat"))},
        {"JPEGImages/Train/1.png", ""},
        {"JPEGImages/Val/2.png", ""}},
       {"voc train: 1.png(1) | val: 2.png(1)"}},
      {{{"Annotations/train/1.xml", xml("1.png", object("cat"))},
        {"Annotations/val/2.xml", xml("2.png", object("cat"))},
        {"JPEGImages/1.png", ""},
        {"JPEGImages/2.png", ""},
        {"classes.txt", "dog\ncat\n"}},
       {"voc train: 1.png(1) | val: 2.png(1)"}},
      {{{"Annotations/train/1.xml", xml("1.png", object("cat"))},
        {"JPEGImages/1.png", ""},
        {"classes.txt", "dog\n"}},
       {"error: Annotations/train/1.xml: line 1: the class \"cat\" is unknown, expected \"dog\""}},
      {{{"Annotations/train/1.xml", xml("1.png", object("cat"))},
        {"Annotations/more/2.xml", xml("2.png", object("cat"))},
        {"JPEGImages/1.png", ""},
        {"JPEGImages/more/2.png", ""}},
       {"voc train: 1.png(1)\nAnnotations/more holds labelled data but is not one of the splits and is left out",
        "1 image in JPEGImages has no XML file in Annotations/train and is left out, for example more/2.png"}},
  });
}

TEST(Splits, OfOtherNamesAreFound) {
  auto coco = [](const std::string& image) {
    return R"({"images":[{"id":1,)" + image + R"(}],"annotations":[{"id":1,"image_id":1,"category_id":1,)" +
           R"("bbox":[1,1,4,4]}],"categories":[{"id":1,"name":"a"}]})";
  };
  const std::string own = R"("file_name":"1.png")",
                    address = R"("coco_url":"http://images.cocodataset.org/{}2017/{}.png")";
  check_reading({
      {{{"train_set/1.xml", xml("1.png", object("cat"))},
        {"train_set/1.png", ""},
        {"val_set/2.xml", xml("2.png", object("cat"))},
        {"val_set/2.png", ""}},
       {"voc train: 1.png(1) | val: 2.png(1)"}},
      {{{"Trainset/_annotations.coco.json", coco(own)}, {"Trainset/1.png", ""}}, {"coco train: 1.png(1)"}},
      {both(labelled({"train_set/1", "test_set/2"}), {{"data.yaml", kNames}}),
       {"yolo train: 1.png(1) | test: 2.png(1)"}},
      // LVIS: its val has images of train2017.
      {{{"annotations/lvis_v1_train.json", coco(fmt::format(fmt::runtime(address), "train", 1))},
        {"annotations/lvis_v1_val.json", coco(fmt::format(fmt::runtime(address), "train", 2))},
        {"train2017/1.png", ""},
        {"train2017/2.png", ""},
        {"val2017/3.png", ""}},
       {"coco train: train2017/1.png(1) | val: train2017/2.png(1)\n", "1 image in ",
        " is not listed and is left out, for example val2017/3.png"}},
      {{{"annotations/lvis_v1_train.json", coco(own)}, {"images/train2017/1.png", ""}},
       {"coco train: 1.png(1)"}},
      {{{"lvis_v1_train.json", coco(own)}, {"train2017/1.png", ""}}, {"coco train: 1.png(1)"}},
      {{{"annotations/lvis_v1_val.json", coco(own)}, {"val2017/1.png", ""}},
       {"coco train: 1.png(1)"},
       "annotations/lvis_v1_val.json"},
  });
}

// Faults of one split's list are blamed on it, not on the lists next to it.
TEST(Splits, AreNotBlamedForOneAnother) {
  for (const auto& [bad, good, files] : std::vector<std::tuple<std::string, std::string, Files>>{
           {"train.csv",
            "val.csv",
            {{"train.csv", "file_name,class,x1,y1,xx,y2\n1.png,cat,1,1,3,3\n"},
             {"val.csv", "file_name,class,x1,y1,x2,y2\n1.png,cat,1,1,3,3\n"},
             {"1.png", ""}}},
           {"ImageSets/Main/train.txt",
            "ImageSets/Main/val.txt",
            {{"ImageSets/Main/train.txt", "../1\n"},
             {"ImageSets/Main/val.txt", "1\n"},
             {"Annotations/1.xml", xml("1.png", object("cat"))},
             {"JPEGImages/1.png", ""}}}}) {
    TestFolder dir;
    make(dir, files);
    const DataSplits splits = find_splits(dir.path());
    ASSERT_TRUE(splits.train && splits.val);
    EXPECT_EQ(check_dataset(*splits.train).problems.count(), 1) << bad;
    EXPECT_EQ(check_dataset(*splits.val).problems.count(), 0) << good;
  }
}

// A list of images for a server, as VOC's test sets are handed out.
TEST(VocReader, TestImagesMayLackTheirAnnotations) {
  TestFolder dir;
  make(dir, {{"ImageSets/Main/train.txt", "1\n"},
             {"ImageSets/Main/test.txt", "2\n3\n"},
             {"Annotations/1.xml", xml("1.png", object("cat"))},
             {"JPEGImages/1.png", ""},
             {"JPEGImages/2.png", ""},
             {"JPEGImages/3.png", ""}});
  DataPaths test = *find_splits(dir.path()).test;
  test.categories = {{1, "cat"}};
  EXPECT_NE(input_error([&] { open_dataset(test); }).find("Annotations/2.xml: no such file"),
            std::string::npos);
  test.may_lack_annotations = true;
  const auto set = open_dataset(test);
  ASSERT_EQ(set->num_images(), 2);
  EXPECT_EQ(set->file_name(1), "3.png");
  EXPECT_FALSE(set->ground_truth().is_annotated);
  // If one exists, the others are missing.
  write_bytes(dir / "Annotations/3.xml", xml("3.png", ""));
  EXPECT_NE(input_error([&] { open_dataset(test); }).find("Annotations/2.xml: no such file"),
            std::string::npos);
}

// The list has the encoding of a Windows program: its names would all become one, or none.
TEST(Splits, ClassesAreTextInUtf8) {
  for (const Files& files : std::vector<Files>{
           {{"train.csv",
             "filename,class,xmin,ymin,xmax,ymax\na.png,K\xE4se,1,1,3,3\na.png,K\xF6se,1,1,3,3\n"},
            {"a.png", ""}},
           {{"classes.txt", "K\xE4se\n"}, {"images/a.png", ""}, {"labels/a.txt", "0 .5 .5 .5 .5\n"}}}) {
    TestFolder dir;
    make(dir, files);
    const DataPaths paths = *find_splits(dir.path()).train;
    EXPECT_NE(input_error([&] { open_dataset(paths); }).find("is not UTF-8 text"), std::string::npos);
    const DatasetReport report = check_dataset(paths);
    EXPECT_NE(fmt::format("{}", fmt::join(report.problems.lines(), "\n")).find("is not UTF-8 text"),
              std::string::npos);
  }
}

TEST(Splits, ImagesAreSharedThroughLinksToo) {
  TestFolder dir;
  make(dir, {{"data.yaml", "names: [a]\ntrain: images/train\nval: images/val\n"},
             {"images/train/1.png", ""},
             {"labels/train/1.txt", ""}});
  for (const char* kind : {"images", "labels"})
    std::filesystem::create_directory_symlink("train", dir / (std::string(kind) + "/val"));
  const DataSplits splits = find_splits(dir.path());
  EXPECT_EQ(
      remark_on_shared_images(read_ground_truth(*splits.train), *splits.train, read_ground_truth(*splits.val),
                              *splits.val),
      "1 of 1 images is also in the training set, for example 1.png; a model has learned such images, so metrics on them are too high");
}

// A file that names some images names all: a folder with a usual name does not stand for what it lacks.
TEST(Splits, ADataYamlWithoutTrainHasNoTrainingImages) {
  const Files files{{"images/train/1.png", ""},
                    {"images/val/2.png", ""},
                    {"labels/train/1.txt", ""},
                    {"labels/val/2.txt", ""}};
  TestFolder dir;
  make(dir, both(files, {{"data.yaml", "names: [a]\nval: images/val\n"}}));
  for (const std::string& place : {dir.path(), dir / "data.yaml"}) {
    const DataSplits splits = find_splits(place);
    EXPECT_FALSE(splits.train);
    ASSERT_TRUE(splits.val);
    EXPECT_EQ(splits.val->images, dir / "images/val");
    ASSERT_EQ(splits.notes.size(), 1u);
    EXPECT_EQ(splits.notes[0], dir / "data.yaml" + ": has no \"train\", so there are no training images");
  }
  make(dir, {{"data.yaml", "names: [a]\n"}});
  const DataSplits usual = find_splits(dir.path());
  ASSERT_TRUE(usual.train && usual.val);
  EXPECT_EQ(usual.train->images, dir / "images/train");
  EXPECT_TRUE(usual.notes.empty());
}

TEST(Splits, WhatIsNotTakenIsSaid) {
  auto notes_of = [](const Files& files) {
    TestFolder dir;
    make(dir, files);
    const std::string notes = fmt::format("{}", fmt::join(find_splits(dir.path()).notes, "\n"));
    return without(notes, dir.path() + "/");
  };
  const std::string table = "filename,class,xmin,ymin,xmax,ymax\na.png,x,1,1,3,3\n";
  EXPECT_EQ(notes_of({{"train.csv", table}, {"train_labels.csv", table}, {"a.png", ""}}),
            "train_labels.csv is ignored because train.csv exists");
  const std::string list =
      R"({"images":[{"id":1,"file_name":"a.png","width":40,"height":20}],"annotations":[],"categories":[{"id":1,"name":"x"}]})";
  EXPECT_EQ(notes_of({{"annotations.json", list}, {"labels.json", list}, {"a.png", ""}}),
            "labels.json is ignored because annotations.json exists");
  const std::string written =
      R"({"info":{"description":"written by saccade from b","image_folder":"gone"},)" + list.substr(1);
  EXPECT_EQ(notes_of({{"train.json", written}, {"images/a.png", ""}}),
            "train.json: its folder of images gone does not exist; images is used instead");
}

TEST(YoloReader, LinksThatLeadNowhereAreSaid) {
  TestFolder dir;
  make(dir, {{"data.yaml", "names: [a]\ntrain: images\n"}, {"images/1.png", ""}, {"labels/1.txt", ""}});
  std::filesystem::create_directory_symlink("/nowhere/at/all", dir / "images/disk");
  EXPECT_NE(fmt::format("{}", fmt::join(read_ground_truth(*find_splits(dir.path()).train).notes, "\n"))
                .find("or nowhere, and is not followed, for example disk"),
            std::string::npos);
}

// The sizes of images are read from their files.
TEST(CsvReader, BoxesOutsideAreFoundWithoutSizes) {
  TestFolder dir;
  make(dir, {{"train.csv", "filename,class,xmin,ymin,xmax,ymax\na.png,x,100,100,200,200\na.png,x,1,1,3,3\n"},
             {"a.png", ""}});
  const DatasetReport report = check_dataset(*find_splits(dir.path()).train);
  EXPECT_EQ(report.problems.count(), 1);
  EXPECT_NE(fmt::format("{}", fmt::join(report.problems.lines(), "\n"))
                .find("lies outside the image of 40 x 20 pixels"),
            std::string::npos);
}

TEST(VocReader, AFolderBesideListsSaysSo) {
  TestFolder dir;
  make(dir, {{"JPEGImages/1.png", ""},
             {"Annotations/1.xml", xml("", object("cat"))},
             {"ImageSets/Main/train.txt", "1\n"}});
  for (const char* place : {"Annotations", ""}) {
    const GroundTruth truth = read_ground_truth({dir / place, dir / "JPEGImages"});
    EXPECT_NE(fmt::format("{}", fmt::join(truth.notes, "\n"))
                  .find("all annotations in the folder are used, although"),
              std::string::npos)
        << place;
  }
}

TEST(YoloReader, AnAbsentPathIsSaid) {
  TestFolder dir;
  make(dir, {{"data.yaml", "path: /none/here\nnames: [a]\ntrain: images\n"},
             {"images/1.png", ""},
             {"labels/1.txt", ""}});
  const GroundTruth truth = read_ground_truth(*find_splits(dir.path()).train);
  EXPECT_EQ(truth.notes, (std::vector<std::string>{
                             "path: \"/none/here\" is not a folder here; names are relative to the file"}));
}

TEST(VocReader, DifficultObjectsAreIgnoredLikeCrowds) {
  TestFolder dir;
  make(dir, {{"a.png", ""},
             {"a.xml", xml("a.png", object("cat", "<difficult>1</difficult>") +
                                        object("dog", "<difficult>0</difficult>"))}});
  std::vector<std::string> notes;
  const auto set = open_dataset(*find_splits(dir.path()).train, LabelScheme::kContiguous, &notes);
  EXPECT_TRUE(set->ground_truth().annotations[0].iscrowd);
  EXPECT_FALSE(set->ground_truth().annotations[1].iscrowd);
  EXPECT_EQ(set->labels_of(0), (std::vector<int64_t>{1}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("1 object is marked as difficult, left out of training and ignored in evaluation"),
            std::string::npos);
}

TEST(VocReader, OtherEncodingsAreRead) {
  for (const auto& [encoding, name, expected] : std::vector<std::array<std::string, 3>>{
           {"windows-1252", "caf\xE9 \x80", "café €"}, {"GB2312", "\xC3\xA8", "猫"}, {"UTF-8", "é", "é"}}) {
    TestFolder dir;
    make(dir,
         {{"a.png", ""},
          {"a.xml", "<?xml version=\"1.0\" encoding=\"" + encoding + "\"?>" + xml("a.png", object(name))}});
    EXPECT_EQ(open_dataset({dir.path(), dir.path()})->class_names().at(0), expected) << encoding;
  }
}

TEST(CsvReader, TakesTablesAsTheyCome) {
  check_reading({
      {{{"train.csv", "filename, class , xmin,ymin, xmax,ymax\na.png, cat , 1, 2, 9 ,12\nb.png,,,,,\n"},
        {"a.png", ""},
        {"b.png", ""}},
       {"csv train: a.png(1) b.png"}},
      {{{"train.csv", "filename;class;xmin;ymin;xmax;ymax\r\na.png;cat;1;2;9;12\r\n"}, {"images/a.png", ""}},
       {"csv train: a.png(1)"}},
      {{{"train.csv", "filename,class,xmin,ymin,xmax,ymax\ra.png,cat,1,2,9,12\r"}, {"images/a.png", ""}},
       {"csv train: a.png(1)"}},
      {{{"train.csv", "filename\tclass\txmin\tymin\txmax\tymax\n\"a.png\" \t \"a cat\"\t1\t2\t9\t12\n"},
        {"images/a.png", ""}},
       {"csv train: a.png(1)"}},
      {{{"train.csv", "filename,class,xmin,ymin,xmax,ymax\nsub\\a.png,cat,1,2,9,12\n"},
        {"images/sub/a.png", ""}},
       {"csv train: sub/a.png(1)"}},
      {{{"annotations.csv", "images/a.png,1,2,9,12,nut\nimages/b.png,,,,,\n"},
        {"classes.csv", "bolt,0\nnut,1\n"},
        {"images/a.png", ""},
        {"images/b.png", ""}},
       {"csv train: images/a.png(1) images/b.png\nnote: annotations.csv: there is no header, so the columns are read as "
        "path,x1,y1,x2,y2,class"}},
      {{{"annotations.csv", "images/a.png,1,2,9,12,nut,40,20\n"}, {"images/a.png", ""}},
       {"csv train: images/a.png(1)\n", "no header"}},
      {{{"annotations.csv", "images/a.png,1,2,9,12,nut\n"},
        {"classes.csv", "bolt,0\nnut,0\n"},
        {"images/a.png", ""}},
       {"error: classes.csv: line 2: expected a class name and a unique number from 0 to 65535"}},
      {{{"annotations.csv", "images/a.png,1,2,9,12,nut\n"},
        {"classes.csv", "bolt,0\nnut,1.5\n"},
        {"images/a.png", ""}},
       {"error: classes.csv: line 2: expected a class name and a unique number from 0 to 65535"}},
      {{{"annotations.csv", "a.png,nut,1,2,9,12\n"}, {"a.png", ""}},
       {"error: annotations.csv: line 1: no column \"file_name\"", "header"}},
  });
}

TEST(Classes, AreThoseOfAllSplits) {
  const std::string header = "file_name,class,x1,y1,x2,y2\n";
  for (const Files& files : std::vector<Files>{{{"train.csv", header + "a.png,cat,1,2,9,12\n"},
                                                {"val.csv", header + "b.png,ape,1,2,9,12\n"},
                                                {"a.png", ""},
                                                {"b.png", ""}},
                                               {{"train/a.xml", xml("a.png", object("cat"))},
                                                {"val/b.xml", xml("b.png", object("ape"))},
                                                {"train/a.png", ""},
                                                {"val/b.png", ""}}}) {
    TestFolder dir;
    make(dir, files);
    const DataSplits splits = find_splits(dir.path());
    for (const auto& paths : {splits.train, splits.val})
      EXPECT_EQ(open_dataset(*paths)->class_names(), (std::vector<std::string>{"ape", "cat"}));
    EXPECT_EQ(open_dataset(*splits.train)->ground_truth().annotations[0].category_id, 2);
  }
}

TEST(Classes, AValidationListMayNameFewer) {
  TestFolder dir;
  auto coco = [](const std::string& categories) {
    return R"({"images":[{"id":1,"file_name":"a.png","width":40,"height":20}],"annotations":[],"categories":[)" +
           categories + "]}";
  };
  make(dir, {{"train/_annotations.coco.json", coco(R"({"id":1,"name":"bolt"},{"id":2,"name":"nut"})")},
             {"train/a.png", ""},
             {"valid/_annotations.coco.json", coco(R"({"id":1,"name":"bolt"})")},
             {"valid/a.png", ""}});
  DataSplits splits = find_splits(dir.path());
  splits.val->categories = open_dataset(*splits.train)->ground_truth().categories;
  EXPECT_EQ(open_dataset(*splits.val)->class_names(), (std::vector<std::string>{"bolt", "nut"}));
}

TEST(CocoReader, LayoutsOfLabelStudioAndFiftyOne) {
  auto coco = [](const std::string& file) {
    return "{\"images\":[{\"id\":1,\"file_name\":\"" + file +
           R"(","width":40,"height":20}],"annotations":[],"categories":[{"id":1,"name":"bolt"}]})";
  };
  check_reading({
      {{{"result.json", coco("images\\/1.png")}, {"images/1.png", ""}}, {"coco train: images/1.png"}},
      {{{"labels.json", coco("1.png")}, {"data/1.png", ""}}, {"coco train: 1.png"}},
      {{{"train/labels.json", coco("1.png")},
        {"train/data/1.png", ""},
        {"val/labels.json", coco("2.png")},
        {"val/data/2.png", ""}},
       {"coco train: 1.png | val: 2.png"}},
      {{{"mine.json", coco("1.png")}, {"images/1.png", ""}}, {"coco train: 1.png"}, "mine.json"},
      {{{"annotations/instances_train2014.json", coco("1.png")},
        {"annotations/instances_train2017.json", coco("1.png")},
        {"images/1.png", ""}},
       {"error: ", "instances_train2014.json and instances_train2017.json may both list the train images"}},
      {{{"annotations/instances_train2014.json", coco("1.png")},
        {"annotations/instances_train2017.json", coco("1.png")},
        {"train2017/1.png", ""}},
       {"coco train: 1.png\nannotations/instances_train2014.json holds labelled data but is not one of the splits and is "
        "left out"}},
      {{{"readme.txt", "x"}}, {"error: ", "describes no known data set"}, "readme.txt"},
  });
}

TEST(Documentation, HasASectionForEachReader) {
  const std::string text = read_bytes(std::string(SACCADE_SOURCE_DIR) + "/docs/formats.md");
  const std::vector<std::string> names = data_formats().names();
  for (const std::string& name : names)
    EXPECT_NE(text.find("\n## " + name + "\n"), std::string::npos) << name;
  EXPECT_EQ(std::count(text.begin(), text.end(), '#'), 1 + 2 * std::ssize(names)) << "a section of no reader";
}

TEST(Documentation, SaysWhatTheFilesOfEachFormatProvide) {
  const std::string text = read_bytes(std::string(SACCADE_SOURCE_DIR) + "/docs/formats.md");
  for (const auto& [name, format] : data_formats().all()) {
    auto word = [](bool has) { return has ? "yes" : "no"; };
    const std::string row = fmt::format("\n| {} | {} | {} | {} |", name, word(format.provides.boxes),
                                        word(format.provides.masks), word(format.provides.image_classes));
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
}

TEST(Splits, SharedImagesAreSaid) {
  TestFolder dir;
  make(dir, both(labelled({"train/1", "train/2"}),
                 {{"data.yaml", kNames + "train: images/train\nval: images\n"}}));
  const DataSplits splits = find_splits(dir.path());
  EXPECT_EQ(
      remark_on_shared_images(read_ground_truth(*splits.train), *splits.train, read_ground_truth(*splits.val),
                              *splits.val),
      "2 of 2 images are also in the training set, for example train/1.png; a model has learned such images, so metrics on them are too high");
}

TEST(Splits, ClassesOfOneSplitAloneAreSaidInEveryFormat) {
  for (const std::string& format : test::kDetectionFormats) {
    SCOPED_TRACE(format);
    TestFolder dir;
    test::write_set(dir.path(), format, "train", {{"a.png", "cat"}, {"b.png", "dog"}}, 1,
                    {"cat", "dog", "emu"});
    test::write_set(dir.path(), format, "val", {{"c.png", "cat"}, {"c.png", "emu"}, {"d.png", "emu"}}, 1,
                    {"cat", "dog", "emu"});
    DataSplits splits = find_splits(dir.path());
    const GroundTruth train = read_ground_truth(*splits.train);
    splits.val->categories = train.categories;
    EXPECT_EQ(remarks_on_lone_classes(train, read_ground_truth(*splits.val)),
              (std::vector<std::string>{
                  "1 class has objects here, but none in the training set, which cannot teach it: \"emu\" 2",
                  "1 class has objects in the training set, but none here, and so no metrics: \"dog\" 1"}));
  }
}

}  // namespace
}  // namespace saccade
