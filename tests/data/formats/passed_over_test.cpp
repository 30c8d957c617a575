// Tests, in all formats, what is next to the data and is not used, and files whose names are nearly those
// that are meant.
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <filesystem>

#include "core/files/unicode_forms.h"
#include "tests/data/formats/reader_rows.h"

namespace saccade {
namespace {

using test::both;
using test::check_reading;
using test::Files;
using test::make;

const std::string kLine = "0 0.5 0.5 0.5 0.5\n";

std::string coco_of(const std::string& image) {
  return R"({"images":[{"id":1,"file_name":")" + image +
         R"(","width":40,"height":20}],"annotations":[],"categories":[{"id":1,"name":"nut"}]})";
}
std::string voc_of() {
  return "<annotation><object><name>nut</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
         "</bndbox></object></annotation>";
}
std::string cvat_of(const std::string& image) {
  return "<annotations>\n<image name=\"" + image +
         "\"><box label=\"nut\" xtl=\"1\" ytl=\"1\" xbr=\"3\" ybr=\"3\"/></image>\n</annotations>\n";
}
std::string labelme_of(const std::string& image) {
  return R"({"imagePath":")" + image +
         R"(","shapes":[{"label":"nut","points":[[1,1],[5,5]],"shape_type":"rectangle"}]})";
}
const std::string kTable = "file_name,class,x1,y1,x2,y2\n";

// Returns the files of one split in a folder of its name.
Files split_of(const std::string& format, const std::string& name) {
  const std::string own = name + "/", image = name + ".png";
  if (format == "coco") return {{own + "_annotations.coco.json", coco_of(image)}, {own + image, ""}};
  if (format == "voc") return {{own + name + ".xml", voc_of()}, {own + image, ""}};
  if (format == "cvat") return {{own + "annotations.xml", cvat_of(image)}, {own + "images/" + image, ""}};
  if (format == "labelme") return {{own + name + ".json", labelme_of(image)}, {own + image, ""}};
  if (format == "csv")
    return {{own + "_annotations.csv", kTable + image + ",nut,1,1,3,3\n"}, {own + image, ""}};
  return {{own + "images/" + image, ""}, {own + "labels/" + name + ".txt", kLine}};
}

TEST(PassedOver, LabelledFoldersBesideTheSplitsAreNamed) {
  for (const std::string format : {"coco", "voc", "cvat", "labelme", "csv", "yolo"}) {
    const Files named = format == "yolo" ? Files{{"data.yaml", "names: [nut]\n"}} : Files{};
    const Files both_splits = both(both(named, split_of(format, "train")), split_of(format, "val"));
    const auto says = [&](const Files& files) {
      TestFolder dir;
      make(dir, files);
      return test::without(fmt::format("{}", fmt::join(find_united({dir.path()}, {}).notes, "\n")),
                           dir.path() + "/");
    };
    EXPECT_EQ(says(both_splits), "") << format;
    EXPECT_EQ(says(both(both_splits, split_of(format, "extra"))),
              "extra holds labelled data but is not one of the splits and is left out")
        << format;
    EXPECT_EQ(says(both(both(both_splits, split_of(format, "extra")), split_of(format, "more")))
                  .find("2 folders or files in "),
              0u)
        << format;
    const std::string valid = says(both(both_splits, split_of(format, "valid")));
    EXPECT_EQ(valid.find("valid"), 0u) << format << ": " << valid;
    EXPECT_NE(valid.find(" is ignored because val"), std::string::npos) << format << ": " << valid;
    EXPECT_EQ(valid.find('\n'), std::string::npos) << format << ": " << valid;
    // Images alone belong to another set and cause no note.
    EXPECT_EQ(says(both(both_splits, {{"extra/1.png", ""}})), "") << format;
  }
}

TEST(PassedOver, ListsAndKeysBesideThoseOfTheSplitsAreNamed) {
  const Files images{
      {"images/1.png", ""}, {"images/2.png", ""}, {"labels/1.txt", kLine}, {"labels/2.txt", kLine}};
  check_reading({
      {{{"train.json", coco_of("1.png")},
        {"val.json", coco_of("2.png")},
        {"more.json", coco_of("1.png")},
        {"images/1.png", ""},
        {"images/2.png", ""},
        {"notes.json", "{}"}},
       {"coco train: 1.png | val: 2.png\nmore.json holds labelled data but is not one of the splits and is left out"}},
      {{{"annotations/instances_train2017.json", coco_of("1.png")},
        {"annotations/instances_extra.json", coco_of("2.png")},
        {"annotations/captions_train2017.json", coco_of("1.png")},
        {"train2017/1.png", ""}},
       {"coco train: 1.png\nannotations/instances_extra.json holds labelled data but is not one of the splits and is left out"}},
      {{{"train.csv", kTable + "1.png,nut,1,1,3,3\n"},
        {"extra.csv", kTable + "1.png,nut,1,1,3,3\n"},
        {"1.png", ""},
        {"classes.csv", "nut,0\n"}},
       {"csv train: 1.png(1)\nextra.csv holds labelled data but is not one of the splits and is left out"}},
      {{{"images/train/1.png", ""},
        {"images/val/2.png", ""},
        {"images/extra/3.png", ""},
        {"labels/train/1.txt", kLine},
        {"labels/val/2.txt", kLine},
        {"labels/extra/3.txt", kLine},
        {"data.yaml", "names: [nut]\ntrain: images/train\nval: images/val\n"}},
       {"yolo train: 1.png(1) | val: 2.png(1)\nlabels/extra holds labelled data but is not one of the splits and is left out"}},
      // Other names of the keys.
      {both(images, {{"data.yaml", "names: [nut]\ntrain: a.txt\nvalid: b.txt\n"},
                     {"a.txt", "images/1.png\n"},
                     {"b.txt", "images/2.png\n"}}),
       {"yolo train: images/1.png(1) | val: images/2.png(1)"}},
      {both(images, {{"data.yaml", "names: [nut]\ntrain: a.txt\nvalid: a.txt\nval: b.txt\nextra: a.txt\n"},
                     {"a.txt", "images/1.png\n"},
                     {"b.txt", "images/2.png\n"}}),
       {"yolo train: images/1.png(1) | val: images/2.png(1)\n",
        "data.yaml: line 3: valid is ignored because val exists",
        "data.yaml: line 5: extra is not train, val or test, and is ignored"}},
      {both(images, {{"obj.data", "train = a.txt\nvalidation = b.txt\nnames = obj.names\n"},
                     {"obj.names", "nut\n"},
                     {"a.txt", "images/1.png\n"},
                     {"b.txt", "images/2.png\n"}}),
       {"yolo train: images/1.png(1) | val: images/2.png(1)"}},
      {both(images, {{"obj.data", "train = a.txt\nvalid = b.txt\nvalidation = b.txt\nnames = obj.names\n"},
                     {"obj.names", "nut\n"},
                     {"a.txt", "images/1.png\n"},
                     {"b.txt", "images/2.png\n"}}),
       {"error: obj.data: line 3: validation appears twice"}},
  });
}

// Returns what is said about unused labelled data in the files, or "" if everything is read.
std::string unused_in(const Files& files, const std::string& place = "") {
  TestFolder dir;
  make(dir, files);
  const std::string folder = dir.path() + "/";
  const std::string notes = fmt::format(
      "{}", fmt::join(find_united({place.empty() ? dir.path() : folder + place}, {}).notes, "\n"));
  return test::without(test::without(notes, folder),
                       " holds labelled data but is not one of the splits and is left out");
}

TEST(PassedOver, LabelledFilesAnywhereAreNamed) {
  const std::string table = kTable + "1.png,nut,1,1,3,3\n";
  const Files yolo{{"data.yaml", "names: [nut]\ntrain: images/train\nval: images/val\n"},
                   {"images/train/1.png", ""},
                   {"images/val/2.png", ""},
                   {"labels/train/1.txt", kLine},
                   {"labels/val/2.txt", kLine}};
  const Files yolo_lists{{"data.yaml", "names: [nut]\ntrain: train.txt\nval: val.txt\n"},
                         {"train.txt", "images/1.png\n"},
                         {"val.txt", "images/2.png\n"},
                         {"images/1.png", ""},
                         {"images/2.png", ""},
                         {"labels/1.txt", kLine},
                         {"labels/2.txt", kLine}};
  const Files roboflow =
      both(split_of("yolo", "train"), {{"data.yaml", "names: [nut]\ntrain: train/images\n"}});
  const Files voc{{"JPEGImages/1.png", ""},
                  {"JPEGImages/2.png", ""},
                  {"JPEGImages/3.png", ""},
                  {"Annotations/1.xml", voc_of()},
                  {"Annotations/2.xml", voc_of()},
                  {"ImageSets/Main/train.txt", "1\n"},
                  {"ImageSets/Main/val.txt", "2\n"},
                  {"ImageSets/Main/trainval.txt", "1\n2\n"},
                  {"ImageSets/Main/nut_train.txt", "1 -1\n"}};
  const Files coco{{"annotations/train.json", coco_of("1.png")}, {"train/1.png", ""}};
  const Files cvat{{"annotations.xml", cvat_of("1.png")}, {"images/1.png", ""}};
  const Files csv{{"train.csv", table}, {"1.png", ""}};
  const Files third = both(voc, {{"Annotations/3.xml", voc_of()}});
  struct Row {
    Files files, more;
    std::string expected;
  };
  for (const auto& [files, more, expected] : std::vector<Row>{
           {yolo, {}, ""},
           {yolo_lists, {}, ""},
           {voc, {}, ""},
           {yolo, {{"README.txt", "1 2 of 3\n"}, {"labels/train.cache", "x"}}, ""},
           // Files next to the splits.
           {yolo, {{"images/r1.png", ""}, {"labels/r1.txt", kLine}}, "labels/r1.txt"},
           {roboflow, {{"train/loose.png", ""}, {"train/loose.txt", kLine}}, "train/loose.txt"},
           {split_of("voc", "val"), {{"1.xml", voc_of()}, {"1.png", ""}}, "1.xml"},
           {split_of("labelme", "val"), {{"1.json", labelme_of("1.png")}, {"1.png", ""}}, "1.json"},
           {coco, {{"annotations.json", coco_of("1.png")}}, "annotations.json"},
           {split_of("coco", "train"), {{"instances.json", coco_of("1.png")}}, "instances.json"},
           {split_of("coco", "val"), {{"val_annotations.json", coco_of("1.png")}}, "val_annotations.json"},
           {coco, {{"annotations/captions_train2017.json", coco_of("1.png")}, {"results.json", "[]"}}, ""},
           // Files some folders deeper.
           {yolo, {{"batch2/train/images/3.png", ""}, {"batch2/train/labels/3.txt", kLine}}, "batch2"},
           {cvat, {{"annotations2.xml", cvat_of("1.png")}}, "annotations2.xml"},
           {cvat, {{"task2/job/annotations.xml", cvat_of("2.png")}}, "task2"},
           {csv, {{"a/b/boxes.csv", table}, {"a/b/1.png", ""}}, "a/b/boxes.csv"},
           {coco, {{"annotations/more/part2.json", coco_of("1.png")}}, "annotations/more"},
           // Lists that name more than what is read.
           {third,
            {{"ImageSets/Main/valid.txt", "3\n"}},
            "ImageSets/Main/valid.txt is ignored because ImageSets/Main/val.txt exists"},
           {third, {{"ImageSets/Main/holdout.txt", "3\n"}}, "ImageSets/Main/holdout.txt"},
           {third, {}, "Annotations/3.xml"},
           {both(yolo_lists, {{"images/3.png", ""}, {"labels/3.txt", kLine}}),
            {{"val2.txt", "images/3.png\n"}},
            "val2.txt"},
           {yolo_lists, {{"val2.txt", "images/1.png\n"}}, ""},
           {csv, {{"extra.tsv", "file_name\tclass\tx1\ty1\tx2\ty2\n1.png\tnut\t1\t1\t3\t3\n"}}, "extra.tsv"},
           // Labels without an image.
           {voc, {{"Annotations/orphan.xml", voc_of()}}, "Annotations/orphan.xml"},
           {yolo_lists, {{"labels/extra/3.txt", kLine}}, "labels/extra/3.txt"},
           {yolo_lists, {{"extra/labels/3.txt", kLine}}, "extra/labels/3.txt"}}) {
    const Files all = both(files, more);
    EXPECT_EQ(unused_in(all), expected) << all.back().first;
    const std::string& file = files[0].first;
    EXPECT_EQ(unused_in(all, file == "data.yaml" ? file : ""), expected) << all.back().first;
  }
}

TEST(PassedOver, OtherSetsBesideADescriptionAreNone) {
  const Files files{{"a.yaml", "names: [nut]\npath: a\ntrain: images/train\nval: images/train\n"},
                    {"a/images/train/1.png", ""},
                    {"a/labels/train/1.txt", kLine},
                    {"b/images/train/1.png", ""},
                    {"b/labels/train/1.txt", kLine}};
  EXPECT_EQ(unused_in(files, "a.yaml"), "");
  EXPECT_EQ(unused_in(files), "b");
  EXPECT_EQ(unused_in(both(files, {{"a/labels/more/2.txt", kLine}}), "a.yaml"), "a/labels/more");
}

TEST(PassedOver, WhatIsReadThroughLinksOrByAnotherFlagIsRead) {
  TestFolder dir;
  make(dir, {{"a/train/_annotations.coco.json", coco_of("1.png")},
             {"a/train/1.png", ""},
             {"a/b/train/_annotations.coco.json", coco_of("2.png")},
             {"a/b/train/2.png", ""},
             {"store/val/_annotations.coco.json", coco_of("3.png")},
             {"store/val/3.png", ""}});
  const auto says = [&](const std::vector<std::string>& places) {
    return test::without(fmt::format("{}", fmt::join(find_united(places, {}).notes, "\n")), dir.path() + "/");
  };
  EXPECT_EQ(says({dir / "a"}), "a/b holds labelled data but is not one of the splits and is left out");
  EXPECT_EQ(says({dir / "a", dir / "a/b"}), "");
  namespace fs = std::filesystem;
  fs::remove_all(dir / "a/b");
  fs::create_directory_symlink("../store/val", dir / "a/val");
  EXPECT_EQ(says({dir / "a"}), "");
  fs::create_directory_symlink("../store", dir / "a/more");
  EXPECT_EQ(says({dir / "a"}).find("1 link to a folder in a leads out of it and is not searched"), 0u)
      << says({dir / "a"});
}

TEST(PassedOver, FoldersOfDataSetsAreNamed) {
  TestFolder dir;
  make(dir, {{"VOC2007/Annotations/1.xml", voc_of()}, {"VOC2007/JPEGImages/1.png", ""}});
  EXPECT_EQ(test::read_all(dir),
            "error: " + dir.path() +
                ": no data set found in the folder itself, but one in VOC2007, expected --data VOC2007");
}

TEST(PassedOver, ClassFoldersBesideTheSplitsAreNamed) {
  TestFolder dir;
  make(dir, {{"train/a/1.png", ""},
             {"val/a/2.png", ""},
             {"valid/a/3.png", ""},
             {"extra/a/4.png", ""},
             {"notes/b/5.png", ""}});
  const DataSplits found = look_for_splits(dir.path(), "", {.image_classes = true});
  EXPECT_EQ(test::without(fmt::format("{}", fmt::join(found.notes, "\n")), dir.path() + "/"),
            "extra is not one of the splits and is left out\nvalid is ignored because val exists");
}

TEST(PassedOver, ImagesThatShareLabelsOrHaveNoEnding) {
  TestFolder dir;
  make(dir, {{"data.yaml", "names: [nut]\ntrain: images\n"},
             {"images/a.png", ""},
             {"images/a.bmp", ""},
             {"images/b.png", ""},  // two without a label file share none
             {"images/c.png", ""},
             {"labels/a.txt", kLine},
             {"LICENSE", "free"},
             {"images/LICENSE", "free"}});
  std::filesystem::copy_file(dir / "images/a.png", dir / "images/bare");
  const std::string text = test::read_all(dir);
  EXPECT_NE(
      text.find("1 image shares the label file of another image, for example labels/a.txt (a.bmp, a.png)"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("1 image in images has no extension like .jpg and is left out, for example bare"),
            std::string::npos)
      << text;
  // An image that a list names counts.
  TestFolder listed;
  make(listed, {{"annotations.json", coco_of("bare")}, {"images/1.png", ""}, {"images/other", "text"}});
  std::filesystem::rename(listed / "images/1.png", listed / "images/bare");
  EXPECT_EQ(test::read_all(listed), "coco train: bare");
}

TEST(PassedOver, AccentsOfOtherSystems) {
  const std::string one = "caf\u00E9\u1EDF\u30AC\uAC01",
                    two = "cafe\u0301o\u031B\u0309\u30AB\u3099\u1100\u1161\u11A8";
  EXPECT_EQ(composed(two), one);
  EXPECT_EQ(decomposed(one), two);
  EXPECT_EQ(composed(one), one);
  EXPECT_EQ(decomposed(two), two);
  EXPECT_EQ(composed("\xC3"), "\xC3");
  for (const auto& [disk, said] : {std::pair{one, two}, std::pair{two, one}}) {
    const std::string png = disk + ".png";
    check_reading({
        {{{"annotations.json", coco_of(said + ".png")}, {"images/" + png, ""}},
         {"coco train: " + png + "\n", "1 image name is listed in another Unicode form"}},
        {{{"annotations.csv", kTable + said + ".png,nut,1,1,3,3\n"}, {png, ""}},
         {"csv train: " + png + "(1)"}},
        {{{"annotations.xml", cvat_of(said + ".png")}, {"images/" + png, ""}},
         {"cvat train: " + png + "(1)"}},
        {{{"Annotations/" + said + ".xml", voc_of()}, {"JPEGImages/" + png, ""}},
         {"voc train: " + png + "(1)"}},
        {{{"Annotations/" + disk + ".xml", voc_of()},
          {"JPEGImages/" + png, ""},
          {"ImageSets/Main/train.txt", said + "\n"}},
         {"voc train: " + png + "(1)"}},
        {{{said + ".json", labelme_of(said + ".png")}, {png, ""}}, {"labelme train: " + png + "(1)"}},
        {{{"data.yaml", "names: [nut]\ntrain: images\n"},
          {"images/" + png, ""},
          {"labels/" + said + ".txt", kLine}},
         {"yolo train: " + png + "(1)"}},
        {{{"data.yaml", "names: [nut]\ntrain: list.txt\n"},
          {"list.txt", "images/" + said + ".png\n"},
          {"images/" + png, ""},
          {"labels/" + disk + ".txt", kLine}},
         {"yolo train: images/" + png + "(1)"}},
    });
  }
}

}  // namespace
}  // namespace saccade
