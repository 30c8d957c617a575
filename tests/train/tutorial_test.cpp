// Follows docs/new_attention_layer.md to its end: its layer, built from its text (see CMakeLists.txt), trains
// a detector through its config line. The layer's own tests are those of every layer
// (attention_table_test.cpp).
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "layers/attention.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/load_model.h"
#include "train/config/task.h"

namespace saccade {
namespace {

// Returns the block of the page that is marked as this language.
std::string block(const std::string& page, const std::string& language) {
  std::string fence = "```" + language + "\n";
  size_t begin = page.find(fence);
  if (begin == std::string::npos) return "";
  begin += fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST(Tutorial, ItsLayerTrainsADetector) {
  std::string line = block(read_bytes(SACCADE_SOURCE_DIR "/docs/new_attention_layer.md"), "textproto");
  ASSERT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << "expected one config line: " << line;
  TestFolder folder;
  std::string data = folder / "data";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
  std::ofstream(folder / "config.textproto") << R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 32 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 32 queries: 10 levels: 1 dropout: 0
    )" << line << R"( }
}
data {
  train { annotations: ")" << data << R"(/annotations.json" images: ")"
                                             << data << R"(/images" }
  batch_size: 4
  augment { height: 96 width: 96 }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 2e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 50 log_every: 1 }
)";
  std::string output = folder / "run";
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output}), 0);
  auto all = losses_of(output);
  ASSERT_EQ(all.size(), 50U);
  auto mean = [&](size_t from) {
    return std::accumulate(all.begin() + static_cast<std::ptrdiff_t>(from),
                           all.begin() + static_cast<std::ptrdiff_t>(from + 10), 0.0) /
           10;
  };
  EXPECT_LT(mean(40), 0.8 * mean(0));
}

// The layer in the page is the one that ran: a layer of this name exists in this program only.
TEST(Tutorial, ItsLayerIsRegistered) {
  EXPECT_NE(std::string(attention_layers().find("efficient_attention").file).find("examples"),
            std::string::npos);
}

// The detector of docs/extending.md: it learns, and what it has learnt is the same after loading.
TEST(Extending, ItsDetectorTrainsAndLoadsAgain) {
  TestFolder folder;
  std::string data = folder / "data";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
  std::string split = "{ annotations: \"" + data + "/annotations.json\" images: \"" + data + "/images\" }";
  std::ofstream(folder / "config.textproto") << R"(
model {
  type: "cell_detector"
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3] }
  transformer { hidden_dim: 32 }
}
data {
  train )" << split << " val " << split << R"(
  batch_size: 4
  augment { height: 96 width: 96 }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 2e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 50 log_every: 1 eval_every_epochs: 0 }
)";
  std::string output = folder / "run";
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output}), 0);
  auto all = losses_of(output);
  ASSERT_EQ(all.size(), 50U);
  EXPECT_LT(std::accumulate(all.end() - 10, all.end(), 0.0),
            0.8 * std::accumulate(all.begin(), all.begin() + 10, 0.0));
  std::string checkpoint = output + "/checkpoints/last.safetensors";
  ASSERT_EQ(run_command({"eval", "--checkpoint", checkpoint, "--annotations", data + "/annotations.json",
                         "--images", data + "/images", "--json", folder / "eval.json"}),
            0);
  EXPECT_NE(read_bytes(folder / "eval.json").find("\"AP\""), std::string::npos);
  LoadedModel loaded = load_trained_model(checkpoint);
  EXPECT_EQ(task_name(loaded.config), "detection");
  EXPECT_EQ(loaded.as<Detector>().type_name(), "CellDetector");
}

}  // namespace
}  // namespace saccade
