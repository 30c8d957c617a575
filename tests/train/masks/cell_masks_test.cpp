// Masks from the data file to predictions, through the detector of cell_masks.cpp.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <regex>

#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

// Figures of boxes and, beside them, of masks.
struct BothFigures {
  double AP = -2, segm_AP = -2, segm_AR_100 = -2;  // -2: there are none
  explicit BothFigures(const std::string& text) {
    auto find = [&](const std::string& name, double& value) {
      std::smatch match;
      if (std::regex_search(text, match, std::regex("\"" + name + R"(": ?([0-9.eE+-]+))")))
        value = std::stod(match[1]);
    };
    find("AP", AP), find("segm_AP", segm_AP), find("segm_AR_100", segm_AR_100);
  }
};

TEST(Masks, AreLearnedAndPredicted) {
  TestFolder folder;
  const std::string data = folder / "data", annotations = data + "/annotations.json",
                    images = data + "/images", output = folder / "run";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
  const std::string split = "{ annotations: \"" + annotations + "\" images: \"" + images + "\" }";
  std::ofstream(folder / "config.textproto") << R"(
model {
  type: "cell_masks"
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [2, 4] }
  transformer { hidden_dim: 32 }
}
data {
  train )" << split << " val " << split << R"(
  batch_size: 4
  augment { height: 96 width: 96 horizontal_flip: 0.5 scale_min: 0.8 scale_max: 1.2 }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 2e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 60 log_every: 1 eval_every_epochs: 0 }
)";
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output}), 0);
  for (const char* part : {"loss_mask", "loss_dice"}) {
    const std::vector<double> losses = logged_numbers(output, part);
    ASSERT_EQ(losses.size(), 60U) << part;
    EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.0),
              0.8 * std::accumulate(losses.begin(), losses.begin() + 10, 0.0))
        << part;
  }
  const std::string checkpoint = output + "/checkpoints/last.safetensors";
  ASSERT_EQ(run_command({"predict", "--checkpoint", checkpoint, "--threshold", "0.02", "--output",
                         folder / "found", images}),
            0);
  EXPECT_NE(read_bytes(folder / "found/detections.json").find("\"segmentation\": {\"size\": ["),
            std::string::npos);
  // Training, evaluation and report tell both figures, unless one is asked for.
  EXPECT_EQ(logged_numbers(output, "segm_AP").size(), 1U);
  EXPECT_EQ(logged_numbers(output, "segm_AP/[^\"]*").size(), 1U);
  auto figures_of = [&](const std::string& command, const std::string& set, const std::string& iou) {
    std::vector<std::string> words{command};
    if (command == "eval")
      words.insert(words.end(), {"--checkpoint", checkpoint});
    else
      words.insert(words.end(), {output});
    words.insert(words.end(), {"--annotations", set, "--images", images, "--json", folder / "both.json"});
    if (!iou.empty()) words.insert(words.end(), {"--iou", iou});
    EXPECT_EQ(run_command(words), 0) << command << " " << set;
    return BothFigures(read_bytes(folder / "both.json"));
  };
  // A set without masks has figures of boxes, but cannot teach.
  const std::regex mask(",\"segmentation\":\\{[^}]*\\}");
  const std::string unmasked = folder / "boxes.json";
  std::ofstream(unmasked) << std::regex_replace(read_bytes(annotations), mask, "");
  for (const char* command : {"eval", "report"}) {
    const BothFigures both = figures_of(command, annotations, ""),
                      boxes = figures_of(command, annotations, "bbox"),
                      masks = figures_of(command, annotations, "segm"),
                      none = figures_of(command, unmasked, "");
    EXPECT_EQ(both.AP, boxes.AP);
    EXPECT_EQ(both.segm_AP, masks.AP);
    EXPECT_GE(both.segm_AR_100, 0);
    for (const BothFigures* one : {&boxes, &masks, &none}) EXPECT_EQ(one->segm_AP, -2);
    EXPECT_EQ(none.AP, boxes.AP);
  }
  ASSERT_EQ(run_command({"report", output}), 0);
  EXPECT_NE(read_bytes(output + "/report.html").find("segm_AP75"), std::string::npos);
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", folder / "unmasked",
                         "--max-steps", "1", "--set", "data.val.annotations=" + unmasked}),
            0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("figures are of boxes alone"), std::string::npos);
  EXPECT_EQ(logged_numbers(folder / "unmasked", "AP").size(), 1U);
  EXPECT_TRUE(logged_numbers(folder / "unmasked", "segm_AP").empty());
  EXPECT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", folder / "none",
                         "--set", "data.train.annotations=" + unmasked}),
            2);
  // Those of masks are the same of evaluations and of lists.
  ASSERT_EQ(run_command({"eval", "--checkpoint", checkpoint, "--annotations", annotations, "--images", images,
                         "--detections", folder / "detections.json", "--iou", "segm", "--json",
                         folder / "eval.json"}),
            0);
  ASSERT_EQ(run_command({"score", "--annotations", annotations, "--detections", folder / "detections.json",
                         "--iou", "segm", "--json", folder / "score.json"}),
            0);
  const std::string figures = read_bytes(folder / "eval.json");
  EXPECT_EQ(figures, read_bytes(folder / "score.json"));
  EXPECT_EQ(figures.find("\"AR100\": 0,"), std::string::npos) << figures;
}

}  // namespace
}  // namespace saccade
