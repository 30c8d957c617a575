// The same seed and configuration on the CPU and on the GPU: on a machine with one, or on the emulated one of
// tests/cuda_emulator in an emulated build.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/determinism.h"
#include "core/device.h"
#include "tests/train/run_command.h"
#include "tests/train/test_folder.h"

namespace saccade {
namespace {

class CudaTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
    data_ = folder_ / "data";
    ASSERT_EQ(run_command({"data", "shapes", "--output", data_, "--images", "8", "--seed", "1"}), 0);
  }

  // A small Deformable DETR with everything: refinement, extra levels, padding, averages.
  std::string train(const std::string& name, const std::string& device, const std::string& precision,
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
    std::string output = folder_ / name;
    EXPECT_EQ(run_command({"train", "--config", folder_ / (name + ".textproto"), "--output", output,
                           "--device", device}),
              0);
    return output;
  }
  void expect_close(const std::string& a, const std::string& b, double tolerance) {
    auto x = losses_of(a), y = losses_of(b);
    ASSERT_EQ(x.size(), y.size());
    ASSERT_GT(x.size(), 0U);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], y[i], tolerance * std::abs(x[i])) << "step " << i + 1;
  }

  TestFolder folder_;
  std::string data_;
};

TEST_F(CudaTraining, GivesTheLossesOfTheCpu) {
  expect_close(train("cpu", "cpu", "f32", 20), train("cuda", "cuda", "f32", 20), 1e-4);
}

// bf16 rounds every product to 8 bits, in another order on the two devices: 2^-8 a step's loss.
TEST_F(CudaTraining, StaysNearTheCpuInBf16) {
  expect_close(train("cpu", "cpu", "bf16", 4), train("cuda", "cuda", "bf16", 4), 4e-3);
}

// tf32 rounds the factors of every f32 product to 10 bits: 2^-10 a step's loss, and not the same loss.
TEST_F(CudaTraining, StaysNearF32InTf32) {
  std::string exact = train("f32", "cuda", "f32", 2), fast = train("tf32", "cuda", "tf32", 2);
  expect_close(exact, fast, 1e-3);
  EXPECT_NE(losses_of(exact), losses_of(fast));
}

// The last op of a run has told the kernels what the configuration says.
TEST_F(CudaTraining, DeterminismIsTheConfigurations) {
  train("fixed", "cuda", "f32", 1);
  EXPECT_TRUE(deterministic_kernels);
  train("any_order", "cuda", "f32\ndeterministic: false", 1);
  EXPECT_FALSE(deterministic_kernels);
}

TEST_F(CudaTraining, IsRepeatedToTheBit) {
  auto weights = [&](const std::string& name) {
    return read_bytes(train(name, "cuda", "f32", 3) + "/checkpoints/last.safetensors");
  };
  std::string first = weights("first");
  EXPECT_GT(first.size(), 10000U);
  EXPECT_TRUE(first == weights("second"));
}

}  // namespace
}  // namespace saccade
