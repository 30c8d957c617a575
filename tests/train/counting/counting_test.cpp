// Tests that every command takes the task of counting_task.cpp like the others.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

TEST(ThirdTask, TrainsEvaluatesPredictsAndReports) {
  TestFolder folder;
  const std::string data = folder / "data", output = folder / "run";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
  const std::string split =
      "{ annotations: \"" + data + "/annotations.json\" images: \"" + data + "/images\" }";
  std::ofstream(folder / "config.textproto") << R"(
model { type: "counter" backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] } }
data {
  train )" << split << " val " << split << R"(
  batch_size: 4
  augment { height: 64 width: 64 }
  val_height: 64 val_width: 64
}
optimizer { learning_rate: 1e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 40 log_every: 1 eval_every_epochs: 0 }
)";
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output}), 0);
  const std::vector<double> losses = losses_of(output);
  ASSERT_EQ(losses.size(), 40U);
  EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.0),
            0.5 * std::accumulate(losses.begin(), losses.begin() + 10, 0.0));

  const std::string checkpoint = output + "/checkpoints/last.safetensors",
                    image = data + "/images/000000.png";
  ASSERT_EQ(run_command({"eval", "--checkpoint", checkpoint, "--annotations", data + "/annotations.json",
                         "--images", data + "/images", "--json", folder / "eval.json"}),
            0);
  EXPECT_NE(read_bytes(folder / "eval.json").find("\"mean_error\": "), std::string::npos);
  ASSERT_EQ(
      run_command({"predict", "--checkpoint", checkpoint, "--output", folder / "found", data + "/images"}),
      0);
  EXPECT_NE(read_bytes(folder / "found/counts.json").find("\"objects\": "), std::string::npos);
  ASSERT_EQ(run_command({"report", output, "--output", folder / "report.html"}), 0);
  EXPECT_NE(read_bytes(folder / "report.html").find("mean error"), std::string::npos);
  EXPECT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output, "--resume",
                         "--max-steps", "41"}),
            0);
  EXPECT_EQ(run_command({"summary", "--config", folder / "config.textproto"}), 0);
  EXPECT_EQ(run_command({"bench", checkpoint, "--seconds", "0.01"}), 0);
  EXPECT_EQ(run_command({"data", "show", "--config", folder / "config.textproto", "--output",
                         folder / "shown", "--images", "2"}),
            0);
}

}  // namespace
}  // namespace saccade
