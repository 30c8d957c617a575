// Tests training, evaluation, check and convert with a folder instead of paths: the forms of one data set,
// and a drawn validation split.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 10 levels: 1 dropout: 0 }
}
data { train { annotations: "none.json" images: "none" } batch_size: 4
       augment { height: 64 width: 64 iou_crop: 0.5 crop_probability: 0 } val_height: 64 val_width: 64 }
optimizer { learning_rate: 1e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 5 log_every: 1 eval_every_epochs: 0 }
)";

void write_to(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_bytes(path.string(), text);
}

// Writes the drawn shapes as COCO, YOLO and Pascal VOC in folders of these names.
void make_forms(const TestFolder& dir) {
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "drawn", "--images", "12", "--seed", "1"}), 0);
  const GroundTruth all = read_ground_truth({dir / "drawn/annotations.json", ""});
  std::string names, list;
  for (const Category& c : all.categories) {
    names += "- " + c.name + "\n";
    list += c.name + "\n";
  }
  write_to(dir / "yolo/data.yaml", "train: images/train\nval: images/val\nnames:\n" + names);
  write_to(dir / "voc/classes.txt", list);
  for (const auto& [split, is_mine] : std::vector<std::pair<std::string, bool (*)(int64_t)>>{
           {"train", [](int64_t id) { return id <= 8; }}, {"val", [](int64_t id) { return id > 8; }}}) {
    GroundTruth part = all;
    std::erase_if(part.images, [&](const ImageInfo& i) { return !is_mine(i.id); });
    std::erase_if(part.annotations, [&](const Annotation& a) { return !is_mine(a.image_id); });
    write_to(dir / ("coco/annotations/" + split + ".json"), coco_json(part, ""));
    std::string stems;
    for (const ImageInfo& image : part.images) {
      const std::string stem = fs::path(image.file_name).stem().string();
      const auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
      stems += stem + "\n";
      std::string labels, objects;
      for (const Annotation& a : part.annotations) {
        if (a.image_id != image.id) continue;
        const auto [x, y, bw, bh] = a.bbox;
        labels += fmt::format("{} {} {} {} {}\n", a.category_id - 1, (x + bw / 2) / w, (y + bh / 2) / h,
                              bw / w, bh / h);
        objects += fmt::format(
            "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>",
            all.categories[static_cast<size_t>(a.category_id - 1)].name, x, y, x + bw, y + bh);
      }
      write_to(dir / ("yolo/labels/" + split + "/" + stem + ".txt"), labels);
      write_to(dir / ("voc/Annotations/" + stem + ".xml"),
               "<annotation><filename>" + image.file_name + "</filename>" + objects + "</annotation>");
      for (const char* folder : {"coco/images/", "voc/JPEGImages/"}) {
        fs::create_directories(dir / folder);
        fs::copy(dir / ("drawn/images/" + image.file_name), dir / folder);
      }
      fs::create_directories(dir / ("yolo/images/" + split));
      fs::copy(dir / ("drawn/images/" + image.file_name), dir / ("yolo/images/" + split));
    }
    write_to(dir / ("voc/ImageSets/Main/" + split + ".txt"), stems);
  }
}

TEST(DataFolder, EveryFormTrainsToTheSameBytes) {
  TestFolder dir;
  make_forms(dir);
  write_bytes(dir / "config.textproto", kFolderConfig);
  std::vector<std::string> last, detections, converted;
  for (const char* form : {"coco", "yolo", "voc"}) {
    fs::rename(dir / form, dir / "data");  // the configuration is part of a checkpoint
    const std::string run = dir / (std::string("run_") + form);
    ASSERT_EQ(
        run_command({"train", "--config", dir / "config.textproto", "--data", dir / "data", "--output", run}),
        0);
    last.push_back(read_bytes(run + "/checkpoints/last.safetensors"));
    ASSERT_EQ(run_command({"eval", "--checkpoint", run + "/checkpoints/last.safetensors", "--data",
                           dir / "data", "--json", run + "/metrics.json"}),
              0);
    // Metrics of each class are not compared, as only COCO's list has other areas than the boxes'.
    detections.push_back(read_bytes(run + "/metrics.json"));
    detections.back().resize(detections.back().find("\"per_class\""));
    ASSERT_EQ(run_command({"data", "check", "--data", dir / "data"}), 0);
    ASSERT_EQ(run_command({"data", "convert", dir / "data", run + "/json", "--from", form, "--to", "coco"}),
              0);
    std::string text = read_bytes(run + "/json/train.json") + read_bytes(run + "/json/val.json");
    for (size_t at; (at = text.find("\"description\"")) != std::string::npos;)
      text.erase(at, text.find('}', at) - at);
    converted.push_back(text);
    fs::rename(dir / "data", dir / form);
  }
  EXPECT_GT(last[0].size(), 1000u);
  EXPECT_TRUE(last[0] == last[1]) << "YOLO";
  EXPECT_TRUE(last[0] == last[2]) << "Pascal VOC";
  EXPECT_EQ(detections[0], detections[1]);
  EXPECT_EQ(detections[0], detections[2]);
  EXPECT_EQ(converted[1], converted[2]);
}

TEST(DataFolder, ValidationIsDrawnAndResumed) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "data", "--images", "12", "--seed", "1"}), 0);
  write_bytes(dir / "config.textproto", kFolderConfig);
  auto train = [&](const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "train", "--config", dir / "config.textproto", "--data", dir / "data", "--output", run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  };
  ASSERT_EQ(train(dir / "whole", {"--set", "data.val_fraction=0.25"}), 0);
  ASSERT_EQ(train(dir / "parts", {"--set", "data.val_fraction=0.25", "--max-steps", "2"}), 0);
  ASSERT_EQ(run_command({"train", "--output", dir / "parts", "--resume"}), 0);
  const std::string whole = read_bytes(dir / "whole/checkpoints/last.safetensors");
  EXPECT_TRUE(whole == read_bytes(dir / "parts/checkpoints/last.safetensors"));
  const CheckpointInfo info =
      read_checkpoint_info(SafetensorsReader(dir / "whole/checkpoints/last.safetensors"));
  EXPECT_TRUE(info.images.starts_with("9 images")) << info.images;
  EXPECT_TRUE(fs::exists(dir / "whole/checkpoints/best.safetensors")) << "the other three are evaluated";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_command(
                {"eval", "--checkpoint", dir / "whole/checkpoints/last.safetensors", "--data", dir / "data"}),
            0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find(
                "has no validation images, so 25 % of the training images, drawn with seed 42, are used"),
            std::string::npos)
      << "figures of a part say so";
  EXPECT_EQ(run_command({"eval", "--checkpoint", dir / "whole/checkpoints/last.safetensors", "--data",
                         dir / "data", "--split", "test"}),
            2);
  EXPECT_EQ(train(dir / "other", {"--set", "data.train.images=a"}), 0) << "--data comes in the place of all";
}

TEST(DataFolder, WhatIsWrongIsSaid) {
  TestFolder dir;
  write_bytes(dir / "train.csv", "image,class,x1,y1,x2,y2\nb.png,cat,1,1,9,9\nb.png,cat,1,1\n");
  EXPECT_EQ(run_command({"data", "check", "--data", dir.path()}), 2);
  EXPECT_EQ(run_command({"data", "check", "--annotations", dir / "train.csv"}), 2);
  EXPECT_EQ(run_command({"data", "convert", dir.path(), dir / "out"}), 2);
  EXPECT_NE(input_error([&] {
              run_data_check({.annotations = "a", .data = {dir.path()}});
            }).find("--data and --annotations cannot be combined"),
            std::string::npos);
  EXPECT_NE(input_error([&] {
              run_data_check({.data = {dir.path()}, .fix = dir / "fixed"});
            }).find("nothing valid"),
            std::string::npos);
  write_png(Image(20, 20), dir / "b.png");
  EXPECT_EQ(run_command({"data", "check", "--data", dir.path(), "--fix", dir / "fixed"}), 0);
  EXPECT_EQ(run_command({"data", "check", "--annotations", dir / "fixed/train.json", "--images", dir.path()}),
            0);
}

// A fault in the second split leaves no list of the first.
TEST(DataFolder, ListsOfSplitsAppearTogetherOrNotAtAll) {
  const std::string header = "image,class,x1,y1,x2,y2\n", good = header + "b.png,cat,1,1,9,9\n";
  std::string parts = header;
  for (int i = 0; i < 12; ++i) parts += fmt::format("b.png,cat,0.1,0.1,0.{},0.9\n", 2 + i % 7);
  for (const auto& [val, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {header + "b.png,cat,9,1,1,9\n", {"data", "convert", "IN", "OUT"}},
           {parts, {"data", "check", "--data", "IN", "--fix", "OUT"}}}) {
    for (const bool is_there : {false, true}) {
      TestFolder dir;
      write_to(dir / "in/train.csv", good);
      write_to(dir / "in/val.csv", val);
      write_png(Image(20, 20), dir / "in/b.png");
      if (is_there) write_to(dir / "out/mine.txt", "x");
      std::vector<std::string> command = words;
      for (std::string& word : command) word = word == "IN" ? dir / "in" : word == "OUT" ? dir / "out" : word;
      EXPECT_EQ(run_command(command), 2);
      EXPECT_EQ(fs::exists(dir / "out"), is_there);
      EXPECT_EQ(is_there ? std::distance(fs::directory_iterator(dir / "out"), fs::directory_iterator()) : 1,
                1);
      write_to(dir / "in/val.csv", good);
      EXPECT_EQ(run_command(command), 0);
      EXPECT_TRUE(fs::exists(dir / "out/train.json") && fs::exists(dir / "out/val.json"));
    }
  }
}

TEST(DataFolder, ReportsReplaceAndHideNothing) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "set", "--images", "2", "--seed", "1"}), 0);
  const std::string list = dir / "set/annotations.json", images = dir / "set/images", page = dir / "p.html";
  write_to(dir / "set/classes.txt", "a");
  write_to(dir / "classes/cat/1.heic", "x");
  write_to(dir / "nothing/1.txt", "x");
  const std::string listed = read_bytes(list);
  for (const auto& [arguments, error] : std::vector<std::pair<DataReportArguments, std::string>>{
           {{.output = list, .data = {dir / "set"}}, "--output is the same file as the annotations"},
           {{.annotations = list, .images = images, .output = list}, "is the same file as the annotations"},
           {{.output = dir / "set/images/9.png", .data = {dir / "set"}}, "is the name of an image"},
           {{.output = dir / "set/classes.txt", .data = {dir / "set"}}, "in the folder of the data set"},
           {{.output = dir / "classes/cat/1.heic", .data = {dir / "classes"}}, "1.heic: is "},
           {{.annotations = list, .images = images + "s", .output = page},
            "imagess: no such folder of images"},
           {{.output = page, .data = {dir / "classes"}}, "images of this type are not supported"},
           {{.output = page, .data = {dir / "nothing"}}, "no data set found in the folder"}}) {
    EXPECT_NE(input_error([&] { run_data_report(arguments); }).find(error), std::string::npos)
        << input_error([&] { run_data_report(arguments); });
    EXPECT_TRUE(read_bytes(list) == listed && !fs::exists(page)) << error;
  }
  for (int time = 0; time < 2; ++time)  // the program's own page may be replaced
    EXPECT_EQ(run_command({"data", "report", "--data", dir / "set", "--output", dir / "set/page.html"}), 0);
}

}  // namespace
}  // namespace saccade
