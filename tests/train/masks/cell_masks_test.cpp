// Masks from the data file to predictions, through the detector of cell_masks.cpp.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <regex>

#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

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
  // Figures of masks, of evaluations and of lists alike.
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
  // A set without masks cannot teach it.
  const std::regex mask(",\"segmentation\":\\{[^}]*\\}");
  std::ofstream(folder / "boxes.json") << std::regex_replace(read_bytes(annotations), mask, "");
  EXPECT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", folder / "none",
                         "--set", "data.train.annotations=" + (folder / "boxes.json")}),
            2);
}

}  // namespace
}  // namespace saccade
