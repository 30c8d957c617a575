// Tests what the commands that only read data take and say: classes as a training has them, how to train on
// what they wrote, whose files they replace.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/evaluation/detections.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Returns all that a command says; it must end with `status`.
std::string told(const std::vector<std::string>& words, int status = 0) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_command(words), status) << words[0];
  const std::string out = testing::internal::GetCapturedStdout();
  return out + testing::internal::GetCapturedStderr();
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected " << part << "\ngot " << text;
}

// Two images with a "cat", a "dog" and a box of no size; as COCO or as YOLO.
void write_pets(const TestFolder& dir) {
  for (const char* name : {"images/1.png", "images/2.png"}) {
    fs::create_directories(dir / "yolo/images");
    write_png(Image(20, 40), dir / "yolo/" + name);
  }
  fs::create_directories(dir / "yolo/labels");
  write_bytes(dir / "yolo/data.yaml", "names: [cat, dog]\ntrain: images\n");
  write_bytes(dir / "yolo/labels/1.txt", "0 0.5 0.5 0.5 0.5\n1 0.25 0.5 0.25 0.5\n");
  write_bytes(dir / "yolo/labels/2.txt", "1 0.5 0.5 0.5 0.5\n1 0.5 0.5 0 0.5\n");
  write_bytes(dir / "list.json",
              R"({"images":[{"id":1,"file_name":"1.png","width":40,"height":20}],
                  "categories":[{"id":3,"name":"cat"},{"id":8,"name":"dog"}],
                  "annotations":[{"id":1,"image_id":1,"category_id":3,"bbox":[1,1,9,9]},
                                 {"id":2,"image_id":1,"category_id":8,"bbox":[20,1,9,9]}]})");
}

TEST(DataFlags, ClassesAreThoseOfATraining) {
  TestFolder dir;
  write_pets(dir);
  const std::string images = dir / "yolo/images", list = dir / "list.json";
  const std::vector<std::string> map{"--set", "data.class_map.dog=cat"};
  auto with_map = [&](std::vector<std::string> words) {
    words.insert(words.end(), map.begin(), map.end());
    return words;
  };
  expect_part(told(with_map({"data", "check", "--annotations", list, "--images", images})),
              "boxes by category: \"cat\" 2");
  expect_part(
      told({"data", "check", "--annotations", list, "--images", images, "--set", "data.class_map.dog="}),
      "1 of 2 boxes left out, those of 1 class: \"dog\" 1");
  told(with_map({"data", "report", "--annotations", list, "--images", images, "--output", dir / "a.html"}));
  EXPECT_EQ(read_bytes(dir / "a.html").find("dog</"), std::string::npos);
  told(with_map({"data", "convert", list, dir / "out", "--images", images}));
  EXPECT_EQ(read_bytes(dir / "out/annotations.json").find("dog"), std::string::npos);
  // Detections of other programs name the classes as the data does, or have its numbers.
  for (const char* category : {R"("category_id":8)", R"("category_id":77,"category":"dog")"}) {
    write_bytes(dir / "d.json", std::string("[{\"image_id\":1,\"bbox\":[20,1,9,9],\"score\":0.9,") +
                                    category +
                                    "},{\"image_id\":1,\"bbox\":[1,1,9,9],\"score\":0.8,\"category_id\":3}]");
    const std::string said = told(with_map(
        {"score", "--annotations", list, "--detections", dir / "d.json", "--json", dir / "figures.json"}));
    expect_part(said, "1 of 2 entries has a class that data.class_map maps to another");
    expect_part(read_bytes(dir / "figures.json"), "\"AP\": 1,");
  }
  // The truth may know a class that the map removes, as that of a model does; a class that others become
  // keeps its name.
  const GroundTruth truth{.images = {{.id = 1, .file_name = "1.png", .width = 40, .height = 20}},
                          .annotations = {},
                          .categories = {{3, "cat"}, {8, "dog"}}};
  write_bytes(dir / "d.json",
              R"([{"image_id":1,"bbox":[1,1,9,9],"score":0.9,"category_id":8,"category":"dog"},
                  {"image_id":1,"bbox":[1,1,9,9],"score":0.8,"category_id":3,"category":"cat"}])");
  const auto ids = [&](const ClassChoice& choice) {
    const std::vector<Detection> found = read_detections(dir / "d.json", &truth, nullptr, false, choice);
    return std::pair{found.at(0).category_id, found.at(1).category_id};
  };
  EXPECT_EQ(ids({}), (std::pair<int64_t, int64_t>{8, 3}));
  EXPECT_EQ(ids({.map = {{"dog", "cat"}}}), (std::pair<int64_t, int64_t>{3, 3}));
  EXPECT_EQ(ids({.map = {{"dog", "cat"}, {"cat", "dog"}}}), (std::pair<int64_t, int64_t>{8, 3}));
}

TEST(DataFlags, ListsOfAnEarlierConversionAreNamed) {
  TestFolder dir;
  write_pets(dir);
  write_bytes(dir / "yolo/both.yaml", "names: [cat, dog]\ntrain: images\nval: images\n");
  EXPECT_EQ(told({"data", "convert", dir / "yolo/both.yaml", dir / "out"}).find("existed before"),
            std::string::npos);
  expect_part(told({"data", "convert", dir / "yolo/data.yaml", dir / "out"}),
              "out/val.json: existed before and is kept; --data " + dir / "out uses it for the val images");
}

TEST(DataFlags, WhatIsWrittenSaysHowToTrainOnIt) {
  TestFolder dir;
  write_pets(dir);
  const auto takes = [](const std::string& place) {
    const DataSplits found = find_splits(place);
    return open_dataset(*found.train)->num_images();
  };
  std::string said = told({"data", "convert", dir / "yolo", dir / "coco"});
  expect_part(said, "train.json: 1 of 4 boxes has no area inside its image and is left out, for example " +
                        dir / "yolo/labels/2.txt: line 2");
  expect_part(said, "to train on it: saccade train --data " + dir / "coco --model rt_detr_r18\n");
  EXPECT_EQ(takes(dir / "coco"), 2);
  told({"data", "check", "--data", dir / "coco"});
  write_bytes(dir / "none.json",
              R"({"images":[{"id":1,"file_name":"1.png"},{"id":2,"file_name":"2.png"}],"annotations":[],)"
              R"("categories":[{"id":1,"name":"cat"}]})");
  const std::string nothing = "no image has an annotation, so there is nothing to learn\n";
  expect_part(told({"data", "convert", dir / "none.json", dir / "none", "--images", dir / "yolo/images"}),
              dir / "none/annotations.json: " + nothing);
  expect_part(told({"data", "convert", dir / "none.json", dir / "none_yolo", "--images", dir / "yolo/images",
                    "--to", "yolo"}),
              dir / "none_yolo: " + nothing);
  said = told({"data", "check", "--annotations", dir / "list.json", "--images", dir / "yolo/images", "--fix",
               dir / "one.json"});
  expect_part(said, dir / "one.json: 1 image is not enough to train on: another is needed for validation");
  std::string two = read_bytes(dir / "list.json");
  two.replace(two.find("}],"), 3, R"(},{"id":2,"file_name":"2.png","width":40,"height":20}],)");
  write_bytes(dir / "list.json", two);
  said = told({"data", "check", "--annotations", dir / "list.json", "--images", dir / "yolo/images", "--fix",
               dir / "some fixed.json"});
  expect_part(said,
              "to train on it: saccade train --data '" + dir / "some fixed.json' --model rt_detr_r18\n");
  EXPECT_EQ(takes(dir / "some fixed.json"), 2);
  said = told({"data", "check", "--annotations", dir / "list.json", "--images", dir / "yolo/images", "--fix",
               dir / "fixed"});
  expect_part(
      said, "--set data.train.annotations=" + dir / "fixed --set data.train.images=" + dir / "yolo/images\n");
  // The folder is moved with its images, or without them.
  fs::create_directories(dir / "moved");
  fs::rename(dir / "coco", dir / "moved/coco");
  fs::rename(dir / "yolo", dir / "moved/yolo");
  EXPECT_EQ(takes(dir / "moved/coco"), 2);
}

// A list of several sets is relative to a folder that may hold anything.
TEST(DataFlags, OfListsOfSeveralSetsTheFoldersOfTheirImagesCount) {
  TestFolder dir;
  write_pets(dir);
  fs::create_directories(dir / "more");
  fs::copy(dir / "yolo", dir / "more/yolo", fs::copy_options::recursive);
  write_png(Image(20, 40), dir / "more/other.png");
  told({"data", "convert", dir / "yolo", dir / "out", "--data", dir / "more/yolo"});
  EXPECT_EQ(told({"data", "check", "--data", dir / "out"}).find("not listed"), std::string::npos);
  write_png(Image(20, 40), dir / "more/yolo/images/new.png");
  expect_part(
      told({"data", "check", "--data", dir / "out"}),
      "1 image in " + dir.path() + " is not listed and is left out, for example more/yolo/images/new.png");
}

// Classes are swapped by the names that detections have, and by their ids.
TEST(DataFlags, ClassesThatAreSwappedAreTheSameByNameAndById) {
  TestFolder dir;
  write_pets(dir);
  for (const char* box : {"[20,1,9,9]", "[1,1,9,9]"}) {
    std::string figures;
    for (const char* category : {R"("category_id":8)", R"("category_id":77,"category":"dog")"}) {
      write_bytes(dir / "d.json",
                  fmt::format(R"([{{"image_id":1,"bbox":{},"score":0.9,{}}}])", box, category));
      told({"score", "--annotations", dir / "list.json", "--detections", dir / "d.json", "--json",
            dir / "figures.json", "--set", "data.class_map.dog=cat", "--set", "data.class_map.cat=dog"});
      const std::string said = read_bytes(dir / "figures.json");
      const std::string ap = said.substr(said.find("\"AP\":"), 12);
      if (figures.empty()) figures = ap;
      EXPECT_EQ(ap, figures) << box;
    }
  }
}

TEST(DataFlags, CheckAndTrainingAgree) {
  TestFolder dir;
  write_pets(dir);
  // Two ids belong to one file.
  std::string list = read_bytes(dir / "list.json");
  list.replace(list.find("}],"), 3, R"(},{"id":2,"file_name":"1.png","width":40,"height":20}],)");
  write_bytes(dir / "twice.json", list);
  const std::string problem = "twice.json: image 2: has the same file \"1.png\" as image 1";
  expect_part(
      told({"data", "check", "--annotations", dir / "twice.json", "--images", dir / "yolo/images"}, 2),
      problem);
  const std::vector<std::string> train{"train", "--model", "quickstart", "--output", dir / "run"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = train;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_part(told(with({"--set", "data.train.annotations=" + dir / "twice.json", "--set",
                         "data.train.images=" + dir / "yolo/images"}),
                   2),
              problem);
  // There are no training images, or they are elsewhere.
  fs::create_directories(dir / "root/val");
  for (const char* place : {"root/", "root/val/"}) {
    fs::copy(dir / "yolo/images/1.png", dir / (std::string(place) + "1.png"));
    write_bytes(dir / (std::string(place) + "1.xml"),
                "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax>"
                "<ymax>9</ymax></bndbox></object></annotation>");
  }
  const std::string said = told({"data", "check", "--data", dir / "root"});
  expect_part(said, "root has no training images, so train refuses it");
  expect_part(said, "root/1.xml holds labelled data but is not one of the splits and is left out");
  expect_part(told(with({"--data", dir / "root"}), 2),
              "no training images found in the folder; " + dir / "root/1.xml holds labelled data");
  // A folder of data sets.
  fs::create_directories(dir / "kit");
  fs::rename(dir / "root", dir / "kit/VOC2007");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"data", "check", "--data", dir / "kit"}, with({"--data", dir / "kit"})})
    expect_part(told(words, 2), "no data set found in the folder itself, but one in " + dir / "kit/VOC2007");
}

// The list may have only the images that training drew for validation.
TEST(DataFlags, ScoreSaysThatAListIsOfAPart) {
  TestFolder dir;
  std::string images, annotations, detections;
  for (int i = 1; i <= 3; ++i) {
    const char* comma = i > 1 ? "," : "";
    images += fmt::format(R"({0}{{"id":{1},"file_name":"{1}.png","width":40,"height":20}})", comma, i);
    annotations += fmt::format(
        R"({0}{{"id":{1},"image_id":{1},"category_id":3,"bbox":[1,1,9,9],"area":81,"iscrowd":0}})", comma, i);
  }
  write_bytes(dir / "list.json",
              fmt::format(R"({{"images":[{}],"annotations":[{}],"categories":[{{"id":3,"name":"cat"}}]}})",
                          images, annotations));
  for (int i = 1; i <= 2; ++i) {
    detections += fmt::format(R"({}{{"image_id":{},"bbox":[1,1,9,9],"score":0.8,"category_id":3}})",
                              i > 1 ? "," : "", i);
    write_bytes(dir / "d.json", "[" + detections + "]");
    const std::string said =
        told({"score", "--annotations", dir / "list.json", "--detections", dir / "d.json"});
    EXPECT_EQ(said.find("d.json: has no detections for 2 of the 3 images with labels") != std::string::npos,
              i == 1)
        << said;
  }
}

TEST(DataFlags, OwnFiguresAreReplacedWithAWord) {
  TestFolder dir;
  write_pets(dir);
  write_bytes(dir / "d.json", R"([{"image_id":1,"bbox":[1,1,9,9],"score":0.8,"category_id":3}])");
  const std::vector<std::string> score{"score",        "--annotations", dir / "list.json", "--detections",
                                       dir / "d.json", "--json",        dir / "f.json"};
  write_bytes(dir / "f.json", "");  // a name that was made for it
  EXPECT_EQ(told(score).find("replaces"), std::string::npos);
  expect_part(told(score), dir / "f.json: replaces an existing file");
}

}  // namespace
}  // namespace saccade
