// docs/new_attention_layer.md, followed to its end: its layer, built from its text (see CMakeLists.txt),
// trains a detector through its config line. The layer's own tests are those of every layer
// (attention_table_test.cpp).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <regex>
#include <sstream>

#include "layers/attention.h"
#include "train/cli.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The block of the page that is marked as this language.
std::string block(const std::string& page, const std::string& language) {
  std::string fence = "```" + language + "\n";
  size_t begin = page.find(fence);
  if (begin == std::string::npos) return "";
  begin += fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

int run(std::vector<std::string> words) {
  std::vector<const char*> argv{"saccade"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_command_line(static_cast<int>(argv.size()), argv.data());
}

// The losses of the run's steps.
std::vector<double> losses(const fs::path& metrics) {
  std::vector<double> out;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_search(line, match, std::regex(R"("loss": ?([0-9.eE+-]+))")))
      out.push_back(std::stod(match[1]));
  }
  return out;
}

TEST(Tutorial, ItsLayerTrainsADetector) {
  std::string line = block(read_text(SACCADE_SOURCE_DIR "/docs/new_attention_layer.md"), "textproto");
  ASSERT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << "expected one config line: " << line;
  fs::path folder = fs::temp_directory_path() / ("saccade_tutorial_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::string data = (folder / "data").string();
  ASSERT_EQ(run({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
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
  std::string output = (folder / "run").string();
  ASSERT_EQ(run({"train", "--config", (folder / "config.textproto").string(), "--output", output}), 0);
  auto all = losses(folder / "run/metrics.jsonl");
  ASSERT_EQ(all.size(), 50U);
  auto mean = [&](size_t from) {
    return std::accumulate(all.begin() + static_cast<std::ptrdiff_t>(from),
                           all.begin() + static_cast<std::ptrdiff_t>(from + 10), 0.0) /
           10;
  };
  EXPECT_LT(mean(40), 0.8 * mean(0));
  fs::remove_all(folder);
}

// The layer in the page is the one that ran: a layer of this name exists in this program only.
TEST(Tutorial, ItsLayerIsRegistered) {
  EXPECT_NE(std::string(attention_spec("efficient_attention").file).find("tutorial"), std::string::npos);
}

}  // namespace
}  // namespace saccade
