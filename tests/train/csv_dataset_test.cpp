// Tests reading, training on and evaluating boxes in CSV; malformed lines are in bad_inputs/formats.table.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "core/tensor/error.h"
#include "data/evaluation/detections.h"
#include "data/formats/data_format.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

const std::string kCsvHeader = "file_name,class,x1,y1,x2,y2\n";

TEST(CsvDataset, ReadsBoxesAndClasses) {
  TestFolder folder;
  const std::string path = folder / "boxes.csv";
  write_bytes(path, kCsvHeader + "b.png,dog,1,2,11,22.5\r\na.png,,,,,\nb.png,cat,0,0,4,4\n");
  auto set = open_dataset({path, ""});
  EXPECT_EQ(set->name(), path);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set->category_ids(), (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(set->num_images(), 2);
  EXPECT_EQ(set->file_name(0), "b.png");
  Sample sample = set->make_sample(0, Image(20, 30));
  ASSERT_EQ(sample.instances.size(), 2u);
  EXPECT_EQ(sample.instances[0].label, 1);
  EXPECT_EQ(sample.instances[0].box.x2, 11);
  EXPECT_EQ(sample.instances[0].box.y2, 20);  // cut to the image
  EXPECT_TRUE(set->make_sample(1, Image(20, 30)).instances.empty());
  EXPECT_EQ(set->ground_truth().annotations[0].bbox, (std::array<double, 4>{1, 2, 10, 20.5}));
  EXPECT_EQ(check_dataset({.annotations = path, .images = ""}).problems.count(), 0);
}

// The same boxes in CSV and in COCO's form give the same training and the same detections.
TEST(CsvDataset, TrainsAndEvaluatesAsCoco) {
  TestFolder folder;
  const std::string data = folder / "data", csv = folder / "boxes.csv";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "12", "--seed", "1"}), 0);
  auto coco = open_dataset({data + "/annotations.json", ""});
  std::string text = kCsvHeader;
  for (const ImageInfo& image : coco->ground_truth().images) {
    text += image.file_name + ",,,,,\n";
    for (const Annotation& a : coco->ground_truth().annotations)
      if (a.image_id == image.id)
        text += fmt::format("{},class {},{},{},{},{}\n", image.file_name, a.category_id, a.bbox[0], a.bbox[1],
                            a.bbox[0] + a.bbox[2], a.bbox[1] + a.bbox[3]);
  }
  write_bytes(csv, text);
  ASSERT_EQ(open_dataset({csv, ""})->category_ids(), coco->category_ids());
  write_bytes(folder / "config.textproto", R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 10 levels: 1 dropout: 0 }
}
data { batch_size: 4 augment { height: 64 width: 64 } val_height: 64 val_width: 64 }
optimizer { learning_rate: 1e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 5 log_every: 1 }
)");
  std::vector<std::vector<double>> losses;
  std::vector<std::string> detections;
  for (const std::string& annotations : {data + "/annotations.json", csv}) {
    const std::string run = folder / fmt::format("run{}", losses.size());
    ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", run, "--set",
                           "data.train.annotations=" + annotations, "--set",
                           "data.train.images=" + data + "/images"}),
              0);
    losses.push_back(losses_of(run));
    ASSERT_EQ(losses.back().size(), 5u);
    for (double loss : losses.back()) EXPECT_TRUE(std::isfinite(loss));
    ASSERT_EQ(run_command({"eval", "--checkpoint", run + "/checkpoints/last.safetensors", "--annotations",
                           annotations, "--images", data + "/images", "--detections", run + "/found.json",
                           "--json", run + "/metrics.json"}),
              0);
    // The names of the classes, which are written next to their ids, are not compared.
    detections.push_back(
        std::regex_replace(read_bytes(run + "/found.json"), std::regex(R"("category":"[^"]*",)"), ""));
    ASSERT_EQ(run_command({"score", "--annotations", annotations, "--detections", run + "/found.json"}), 0);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_GT(detections[0].size(), 100u);
  EXPECT_EQ(detections[0], detections[1]);
}

}  // namespace
}  // namespace saccade
