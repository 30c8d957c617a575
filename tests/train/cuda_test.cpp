// The same seed and configuration on the CPU and on the GPU: on a machine with one, or on the emulated one of
// tests/cuda_emulator in an emulated build.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>

#include "core/device.h"
#include "train/cli.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

int run(std::vector<std::string> words) {
  std::vector<const char*> argv{"saccade"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_command_line(static_cast<int>(argv.size()), argv.data());
}

std::vector<double> losses(const fs::path& run_folder) {
  std::vector<double> out;
  std::ifstream file(run_folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_search(line, match, std::regex(R"("loss": ?([0-9.eE+-]+))")))
      out.push_back(std::stod(match[1]));
  }
  return out;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CudaTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
    folder_ = fs::temp_directory_path() / ("saccade_cuda_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    data_ = (folder_ / "data").string();
    ASSERT_EQ(run({"data", "shapes", "--output", data_, "--images", "8", "--seed", "1"}), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A small Deformable DETR with everything: refinement, extra levels, padding, averages.
  fs::path train(const std::string& name, const std::string& device, const std::string& precision,
                 int steps) {
    std::ofstream(folder_ / (name + ".textproto")) << R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer { hidden_dim: 32 heads: 4 encoder_layers: 1 decoder_layers: 2 ffn_dim: 32 queries: 10 levels: 3
                box_refine: true dropout: 0.1 }
}
data {
  train { annotations: ")" << data_ << R"(/annotations.json" images: ")"
                                                   << data_ << R"(/images" }
  batch_size: 2
  augment { height: 96 width: 96 scale_min: 0.8 scale_max: 1.25 }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 1e-4 clip_norm: 0.1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: )" << steps << R"( log_every: 1 ema_decay: 0.9 }
precision: )" << precision << "\n";
    fs::path output = folder_ / name;
    EXPECT_EQ(run({"train", "--config", (folder_ / (name + ".textproto")).string(), "--output",
                   output.string(), "--device", device}),
              0);
    return output;
  }
  void expect_close(const fs::path& a, const fs::path& b, double tolerance) {
    auto x = losses(a), y = losses(b);
    ASSERT_EQ(x.size(), y.size());
    ASSERT_GT(x.size(), 0U);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], y[i], tolerance * std::abs(x[i])) << "step " << i + 1;
  }

  fs::path folder_;
  std::string data_;
};

TEST_F(CudaTraining, GivesTheLossesOfTheCpu) {
  expect_close(train("cpu", "cpu", "f32", 20), train("cuda", "cuda", "f32", 20), 1e-4);
}

// bf16 rounds every product to 8 bits, in another order on the two devices: 2^-8 a step's loss.
TEST_F(CudaTraining, StaysNearTheCpuInBf16) {
  expect_close(train("cpu", "cpu", "bf16", 4), train("cuda", "cuda", "bf16", 4), 4e-3);
}

TEST_F(CudaTraining, IsRepeatedToTheBit) {
  auto weights = [&](const std::string& name) {
    return bytes_of(train(name, "cuda", "f32", 3) / "checkpoints/last.safetensors");
  };
  std::string first = weights("first");
  EXPECT_GT(first.size(), 10000U);
  EXPECT_TRUE(first == weights("second"));
}

}  // namespace
}  // namespace saccade
