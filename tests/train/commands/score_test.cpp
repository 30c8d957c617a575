// Tests saccade score, eval and report with files of other programs, in other formats and of other splits.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "data/evaluation/detections.h"
#include "data/formats/data_format.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

void write_under(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_bytes(path.string(), text);
}

struct Scored {
  int status = 0;
  std::string out, error;
  double AP = -2;
};

Scored scored(std::vector<std::string> arguments, const TestFolder& dir) {
  arguments.insert(arguments.begin(), {"score", "--json", dir / "figures.json"});
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Scored s{.status = run_command(arguments)};
  s.out = testing::internal::GetCapturedStdout();
  s.error = testing::internal::GetCapturedStderr();
  if (s.status != 0) return s;
  const std::string json = read_bytes(dir / "figures.json");
  s.AP = std::round(1e9 * std::stod(json.substr(json.find("\"AP\": ") + 6))) / 1e9;
  return s;
}

// Runs a command and returns its status and all that it prints.
std::pair<int, std::string> run_words(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_command(words);
  const std::string out = testing::internal::GetCapturedStdout();
  return {status, out + testing::internal::GetCapturedStderr()};
}

// Returns the truth of a split as detections, by the ids and names that a training on the folder has.
std::vector<Detection> truth_as_detections(const GroundTruth& truth) {
  std::vector<Detection> detections;
  for (const Annotation& a : truth.annotations)
    detections.push_back({a.image_id, a.category_id, a.bbox, 0.9});
  return detections;
}

// A data.yaml names several splits (ultralytics #18251, yolov5 #10747).
TEST(Score, YoloNeedsToKnowWhichImages) {
  TestFolder dir;
  write_under(dir / "data.yaml", "train: train/images\nval: valid/images\nnames: [nut, bolt]\n");
  for (const auto& [split, label] :
       {std::pair{"train", "0 0.5 0.5 0.5 0.5\n"}, {"valid", "1 0.3 0.3 0.2 0.4\n"}})
    for (const char* name : {"1", "2"}) {
      fs::create_directories(dir / (std::string(split) + "/images"));
      write_png(Image(40, 60), dir / (std::string(split) + "/images/" + name + ".png"));
      write_under(dir / (std::string(split) + "/labels/" + name + ".txt"), label);
    }
  const GroundTruth truth = read_ground_truth({dir / "data.yaml", dir / "valid/images"});
  write_detections(dir / "d.json", truth_as_detections(truth));
  EXPECT_EQ(scored({"--data", dir.path(), "--detections", dir / "d.json"}, dir).AP, 1);
  EXPECT_EQ(scored({"--data", dir.path(), "--split", "train", "--detections", dir / "d.json"}, dir).AP, 0);
  EXPECT_EQ(scored({"--annotations", dir / "data.yaml", "--images", dir / "valid/images", "--detections",
                    dir / "d.json"},
                   dir)
                .AP,
            1);
  const Scored refused = scored({"--annotations", dir / "data.yaml", "--detections", dir / "d.json"}, dir);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.error.find("--images: not given"), std::string::npos) << refused.error;
}

// The classes of CSV are numbered by the whole training set, which has one more.
TEST(Score, CsvHasTheClassesOfTheTraining) {
  TestFolder dir;
  const std::string header = "file_name,class,x1,y1,x2,y2\n";
  write_under(dir / "train.csv", header + "a.png,cat,1,1,20,20\na.png,dog,1,1,9,9\na.png,fox,2,2,30,9\n");
  write_under(dir / "val.csv", header + "b.png,cat,1,1,20,20\nb.png,fox,2,2,30,9\n");
  write_png(Image(40, 60), dir / "a.png");
  write_png(Image(40, 60), dir / "b.png");
  DataPaths paths{dir / "val.csv", dir.path()};
  paths.categories = {{1, "cat"}, {2, "dog"}, {3, "fox"}};
  const GroundTruth truth = read_ground_truth(paths);
  std::vector<Detection> detections = truth_as_detections(truth);
  detections.push_back({1, 2, {2, 2, 28, 7}, 0.95});  // a dog that is no fox
  write_detections(dir / "d.json", detections);
  EXPECT_EQ(scored({"--data", dir.path(), "--detections", dir / "d.json"}, dir).AP, 1);
  const Scored alone = scored({"--annotations", dir / "val.csv", "--detections", dir / "d.json"}, dir);
  EXPECT_NE(alone.out.find("its classes are numbered from its own names"), std::string::npos) << alone.out;
  // With names in the file nothing else is needed.
  write_detections(dir / "d.json", detections, &truth);
  const Scored named = scored({"--annotations", dir / "val.csv", "--detections", dir / "d.json"}, dir);
  EXPECT_EQ(named.AP, 1);
  EXPECT_NE(
      named.out.find(
          "1 of 3 entries is left out because its category is not in the annotations, for example \"dog\""),
      std::string::npos)
      << named.out;
  EXPECT_NE(named.out.find("in 1 of 3 entries, category_id is not the id"), std::string::npos) << named.out;
}

constexpr const char* kTruth =
    R"({"images":[{"id":7,"file_name":"x/0001.jpg","width":60,"height":40},{"id":"left eye","file_name":"b.jpg","width":60,"height":40}],
    "annotations":[{"id":1,"image_id":7,"category_id":2,"bbox":[1,1,20,20],"area":400},{"id":2,"image_id":"left eye","category_id":5,"bbox":[3,3,20,20],"area":400}],
    "categories":[{"id":2,"name":"nut"},{"id":5,"name":"bolt"}]})";

TEST(Score, ImagesAndCategoriesAreFoundByTheirNames) {
  TestFolder dir;
  write_bytes(dir / "a.json", kTruth);
  struct Case {
    std::string detections, said;
  };
  const std::string box_1 = R"("bbox":[1,1,20,20],"score":0.9)", box_2 = R"("bbox":[3,3,20,20],"score":0.8)";
  for (
      const Case& c : std::vector<Case>{
          {R"([{"image_id":7,"category_id":2,)" + box_1 + R"(},{"image_id":"left eye","category_id":5,)" +
               box_2 + "}]",
           ""},
          // Ultralytics writes the stem of the file name, and in newer versions the name.
          {R"([{"image_id":"0001","category_id":2,)" + box_1 + R"(},{"image_id":"b","category_id":5,)" +
               box_2 + "}]",
           ""},
          {R"([{"image_id":1,"file_name":"0001.jpg","category_id":2,)" + box_1 +
               R"(},{"image_id":"b","file_name":"b.jpg","category_id":5,)" + box_2 + "}]",
           "in 1 of 2 entries, image_id is not the id"},
          {R"([{"image_id":7,"file_name":"x\\0001.jpg","category_id":2,)" + box_1 +
               R"(},{"image_id":8,"file_name":"old/c.jpg","category_id":5,)" + box_2 + "}]",
           "1 of 2 entries names a file that is not in the annotations, for example \"old/c.jpg\"; image_id counts"},
          {R"([{"file_name":"0001.jpg","category":"nut","category_id":0,)" + box_1 +
               R"(},{"file_name":"b.jpg","category":"bolt","category_id":1,)" + box_2 + "}]",
           "in 2 of 2 entries, category_id is not the id"},
          // FiftyOne and others write a dictionary with lists of its own.
          {R"({"images":[{"id":1,"file_name":"0001.jpg"},{"id":2,"file_name":"b.jpg"}],"categories":[{"id":0,"name":"bolt"},{"id":1,"name":"nut"}],
              "annotations":[{"id":1,"image_id":1,"category_id":1,)" +
               box_1 + R"(},{"id":2,"image_id":2,"category_id":0,)" + box_2 + "}]}",
           "in 2 of 2 entries, image_id is not the id"}}) {
    write_bytes(dir / "d.json", c.detections);
    const Scored s = scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir);
    EXPECT_EQ(s.AP, 1) << c.detections << s.error;
    EXPECT_NE(s.out.find(c.said), std::string::npos) << s.out;
    if (c.said.empty()) {
      EXPECT_EQ(s.out.find("entries"), std::string::npos) << s.out;
    }
  }
}

TEST(Score, DetectionsOfOtherImagesAreNoFigures) {
  TestFolder dir;
  write_bytes(dir / "a.json", kTruth);
  const std::string box = R"("bbox":[1,1,20,20],"score":0.9)";
  write_bytes(dir / "d.json", R"([{"image_id":7,"file_name":"other.jpg","category_id":2,)" + box + "}]");
  const Scored other = scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir);
  EXPECT_NE(
      other.error.find("d.json: none of the files that its entries name is in the annotations (the first is "
                       "\"other.jpg\")"),
      std::string::npos)
      << other.error;
  write_bytes(dir / "d.json", R"([{"image_id":7,"category":"screw","category_id":2,)" + box + "}]");
  const Scored named = scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir);
  EXPECT_NE(
      named.out.find(
          "1 of 1 entries names a category that the annotations lack, for example \"screw\"; category_id counts"),
      std::string::npos)
      << named.out << named.error;
  // A name alone suffices.
  write_bytes(dir / "d.json", R"([{"image_id":7,"category":"nut",)" + box + "}]");
  const Scored alone = scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir);
  EXPECT_EQ(alone.status, 0) << alone.error;
  EXPECT_EQ(alone.out.find("category_id"), std::string::npos) << alone.out;
}

// cocoapi #558 #584, torchmetrics #1153
TEST(Score, MoreThanAHundredObjectsAreCountedOrTold) {
  TestFolder dir;
  GroundTruth truth{.images = {{.id = 1, .file_name = "a.jpg", .width = 4000, .height = 40}},
                    .categories = {{1, "cell"}}};
  for (int64_t i = 0; i < 150; ++i)
    truth.annotations.push_back({.id = i + 1,
                                 .image_id = 1,
                                 .category_id = 1,
                                 .bbox = {20.0 * static_cast<double>(i), 0, 10, 10},
                                 .area = 100});
  std::string list =
      "{\"images\":[{\"id\":1,\"file_name\":\"a.jpg\",\"width\":4000,\"height\":40}],\"categories\":[{\"id\":1,\"name\":\"cell\"}],"
      "\"annotations\":[";
  for (const Annotation& a : truth.annotations)
    list += fmt::format("{}{{\"id\":{},\"image_id\":1,\"category_id\":1,\"bbox\":[{},0,10,10],\"area\":100}}",
                        a.id > 1 ? "," : "", a.id, a.bbox[0]);
  write_bytes(dir / "a.json", list + "]}");
  write_detections(dir / "d.json", truth_as_detections(truth));
  const Scored hundred = scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir);
  EXPECT_LT(hundred.AP, 0.7);
  EXPECT_NE(hundred.out.find("only the best 100 detections per image and class count"), std::string::npos);
  EXPECT_NE(hundred.out.find("image 1 has 150 objects of one class (1 such case)"), std::string::npos)
      << hundred.out;
  const Scored more = scored(
      {"--annotations", dir / "a.json", "--detections", dir / "d.json", "--max-detections", "500"}, dir);
  EXPECT_EQ(more.AP, 1);
  EXPECT_EQ(more.out.find("only the best"), std::string::npos);
  EXPECT_NE(more.out.find("maxDets=500 ] = 1.000"), std::string::npos) << more.out;
  const std::string json = read_bytes(dir / "figures.json");
  EXPECT_NE(json.find("\"AR_500\": 1"), std::string::npos);
  EXPECT_NE(json.find("\"per_class\": ["), std::string::npos) << "the classes are always there";
}

// D-FINE #40, cocoapi #546; detr #28, cocoapi #36
TEST(Score, TellsPartsAreasOfNothingAndNoDetections) {
  TestFolder dir;
  std::string truth = kTruth;
  write_bytes(dir / "a.json", truth);
  write_bytes(dir / "d.json", R"([{"image_id":7,"category_id":2,"bbox":[0.1,0.2,0.3,0.4],"score":0.5}])");
  EXPECT_NE(scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir)
                .out.find("d.json: the boxes are between 0 and 1: they look like fractions of the image"),
            std::string::npos);
  write_bytes(dir / "d.json", "[]");
  EXPECT_NE(scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir)
                .out.find("d.json: has no detections"),
            std::string::npos);
  for (size_t at; (at = truth.find("400")) != std::string::npos;) truth.replace(at, 3, "0");
  write_bytes(dir / "a.json", truth);
  EXPECT_NE(scored({"--annotations", dir / "a.json", "--detections", dir / "d.json"}, dir)
                .out.find("a.json: all 2 areas are 0; AP_small"),
            std::string::npos);
}

constexpr const char* kScoredConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data { batch_size: 2 augment { height: 64 width: 64 } val_height: 64 val_width: 64 }
train { epochs: 0 max_steps: 1 }
)";

// Without annotations eval writes detections for a server. DINO #247, detectron2 #275, ultralytics #14510,
// mmdetection #3327
TEST(Score, EvalWithoutAnnotationsAndItsFilesAreReadByNames) {
  TestFolder dir;
  const std::string images = dir / "train/images", list = dir / "train/annotations.json";
  ASSERT_EQ(
      run_words({"data", "shapes", "--output", dir / "train", "--images", "4", "--seed", "1", "--size", "64"})
          .first,
      0);
  fs::create_directories(dir / "val");
  std::string text = read_bytes(list);
  // The validation set names one category fewer, which no object has.
  text.insert(text.rfind("]}"), ",{\"id\":9,\"name\":\"spare\"}");
  write_bytes(list, text);
  std::string fewer = read_bytes(list);
  fewer.erase(fewer.rfind(",{\"id\":9"), std::string(",{\"id\":9,\"name\":\"spare\"}").size());
  write_bytes(dir / "val/annotations.json", fewer);
  fs::create_directory_symlink(images, dir / "val/images");
  write_bytes(dir / "c.textproto", kScoredConfig);
  EXPECT_EQ(run_words({"data", "check", "--data", dir.path()}).first, 0);
  const auto [trained, said] =
      run_words({"train", "--config", dir / "c.textproto", "--data", dir.path(), "--output", dir / "run"});
  ASSERT_EQ(trained, 0) << said;
  EXPECT_NE(said.find("names 6 of the 7 categories; the others have no objects here"), std::string::npos)
      << said;
  const std::string checkpoint = dir / "run/checkpoints/last.safetensors", found = dir / "found.json";
  const std::vector<std::string> eval{"eval",     "--checkpoint", checkpoint,
                                      "--images", images,         "--annotations"};
  auto evaluate = [&](const std::string& annotations, std::vector<std::string> more) {
    std::vector<std::string> words = eval;
    words.push_back(annotations);
    words.insert(words.end(), more.begin(), more.end());
    return run_words(words);
  };
  ASSERT_EQ(evaluate(list, {"--detections", found, "--json", dir / "f.json"}).first, 0);
  const std::string detections = read_bytes(found);
  EXPECT_NE(detections.find("\"file_name\":\"000001.png\""), std::string::npos);
  // Images in another order have other numbers, but the same metrics.
  GroundTruth truth = read_ground_truth({list, ""});
  std::string shuffled = "file_name,class,x1,y1,x2,y2\n";
  for (size_t i = truth.annotations.size(); i-- > 0;) {
    const Annotation& a = truth.annotations[i];
    for (const ImageInfo& image : truth.images)
      for (const Category& c : truth.categories)
        if (image.id == a.image_id && c.id == a.category_id)
          shuffled += fmt::format("{},{},{},{},{},{}\n", image.file_name, c.name, a.bbox[0], a.bbox[1],
                                  a.bbox[0] + a.bbox[2], a.bbox[1] + a.bbox[3]);
  }
  write_under(dir / "other/boxes.csv", shuffled);
  const Scored coco = scored({"--annotations", list, "--detections", found}, dir),
               csv = scored({"--annotations", dir / "other/boxes.csv", "--detections", found, "--checkpoint",
                             checkpoint},
                            dir);
  EXPECT_EQ(csv.status, 0) << csv.error;
  EXPECT_EQ(csv.AP, coco.AP);
  // report reads predict's list just as score does.
  ASSERT_EQ(
      run_words({"predict", "--checkpoint", checkpoint, "--threshold", "0", "--output", dir / "p", images})
          .first,
      0);
  const auto reported = run_words(
      {"report", dir / "run", "--detections", dir / "p/detections.json", "--output", dir / "r.html"});
  EXPECT_EQ(reported.first, 0) << reported.second;

  std::string info = text;
  const size_t begin = info.find(",\n\"annotations\""), end = info.find(",\n\"categories\"");
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  info.erase(begin, end - begin);
  write_bytes(dir / "image_info_test.json", info);
  const auto [status, output] = evaluate(dir / "image_info_test.json", {"--detections", dir / "t.json"});
  EXPECT_EQ(status, 0) << output;
  EXPECT_NE(output.find("no metrics"), std::string::npos);
  EXPECT_EQ(output.find("Average"), std::string::npos);
  EXPECT_EQ(read_bytes(dir / "t.json"), detections);
  for (const auto& [more, error] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "--detections: not given, but"},
           {{"--detections", dir / "u.json", "--json", dir / "v.json"}, "--json: given, but"}}) {
    const auto [refused, message] = evaluate(dir / "image_info_test.json", more);
    EXPECT_EQ(refused, 2);
    EXPECT_NE(message.find(error), std::string::npos) << message;
  }
  EXPECT_FALSE(fs::exists(dir / "u.json"));
  EXPECT_EQ(scored({"--annotations", dir / "image_info_test.json", "--detections", found}, dir).status, 2);
}

// A folder that is named as an output may already hold files.
TEST(FolderOutputs, AreReplacedWithAWordOrNotAtAll) {
  TestFolder dir;
  ASSERT_EQ(run_words({"data", "shapes", "--output", dir / "set", "--images", "4", "--seed", "1"}).first, 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"data", "convert", dir / "set", dir / "out"},
        {"data", "check", "--data", dir / "set", "--fix", dir / "fixed"}}) {
    const std::string file = words.back() + "/train.json";
    write_under(file, "precious");
    const auto [refused, message] = run_words(words);
    EXPECT_EQ(refused, 2);
    EXPECT_NE(message.find("already exists and was not written by saccade"), std::string::npos) << message;
    EXPECT_EQ(read_bytes(file), "precious");
    fs::remove(file);
    EXPECT_EQ(run_words(words).first, 0);
    const auto [again, said] = run_words(words);
    EXPECT_EQ(again, 0);
    EXPECT_NE(said.find(file + ": replaces an existing file"), std::string::npos) << said;
  }
  const std::vector<std::string> fix{
      "data",  "check",         "--annotations", dir / "set/annotations.json", "--images", dir / "set/images",
      "--fix", dir / "one.json"};
  write_bytes(dir / "one.json", "old");
  EXPECT_NE(run_words(fix).second.find("one.json: already exists and was not written by saccade"),
            std::string::npos);
  EXPECT_EQ(read_bytes(dir / "one.json"), "old");
  fs::remove(dir / "one.json");
  run_words(fix);
  EXPECT_NE(run_words(fix).second.find("one.json: replaces an existing file"), std::string::npos);
  write_bytes(dir / "c.textproto", kScoredConfig);
  const std::vector<std::string> show{"data",   "show",      "--config", dir / "c.textproto",
                                      "--data", dir / "set", "--output", dir / "seen"};
  EXPECT_EQ(run_words(show).second.find("replaces"), std::string::npos);
  EXPECT_NE(run_words(show).second.find("step000001_00.png: replaces an existing file"), std::string::npos);
}

}  // namespace
}  // namespace saccade
