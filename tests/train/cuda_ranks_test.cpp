// Tests training by two processes with an emulated GPU each, over the stand-in for NCCL.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/runtime/gpu.h"
#include "tests/run_command.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

// The model uses batch statistics, denoising and random masks.
constexpr const char* kModel = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 4 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer {
    hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0.1
    denoising { queries: 4 }
  }
}
data {
  train { annotations: "gpus4/annotations.json" images: "gpus4/images" }
  batch_size: 4
  workers: 1
  augment { height: 32 width: 32 }
}
train { max_steps: 2 log_every: 1 ema_decay: 0.9 }
)";

class CudaRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_emulated()) GTEST_SKIP() << "needs the emulated GPU";
    if (fs::exists(scratch() / "gpus4")) return;
    write_bytes(scratch() / "gpus.textproto", kModel);
    expect_works("data shapes --output gpus4 --images 4 --seed 3 --size 32");
  }
  // The folder is next to those of other tests' runs.
  static fs::path run_folder(const std::string& name) { return scratch() / ("gpus_" + name); }
  static Result train(const std::string& name, const std::string& more, const std::string& variables = "") {
    return run_ranks(fmt::format(
        "{} SACCADE_EMULATOR_GPUS=2 OMP_NUM_THREADS=1 timeout -k 5 100 \"$S\" train --config gpus.textproto --output {} "
        "--trial-batch off --device {}",
        variables, run_folder(name).string(), more));
  }
  static void expect_trains(const std::string& name, const std::string& more) {
    const Result r = train(name, more);
    EXPECT_EQ(r.status, 0) << r.err << r.out;
    EXPECT_EQ(r.err, "");
  }
};

TEST_F(CudaRanks, TwoGpusTrainAsOneAndTwiceTheSame) {
  expect_trains("one", "cuda");
  for (const char* name : {"two", "again"}) expect_trains(name, "cuda --processes 2");
  expect_trains("any_order", "cuda --processes 2 --set deterministic=false");
  for (const char* other : {"two", "any_order"})
    for (const char* name : {"loss", "gradient_norm"}) {
      const auto a = logged_numbers(run_folder("one").string(), name),
                 b = logged_numbers(run_folder(other).string(), name);
      ASSERT_EQ(a.size(), 2U) << name;
      ASSERT_EQ(b.size(), 2U) << name;
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(b[i], a[i], 1e-5 * std::max(std::fabs(a[i]), 1e-3)) << other << " " << name << " " << i;
    }
  auto last = [](const char* run) { return read_bytes(run_folder(run) / "checkpoints/last.safetensors"); };
  EXPECT_EQ(last("again"), last("two"));
  // The host waits for the matching, but not for the other GPU.
  for (const double waits : logged_numbers(run_folder("two").string(), "host_syncs")) EXPECT_EQ(waits, 1);
}

// Otherwise the host would wait for such work for ever.
TEST_F(CudaRanks, WorkThatFailsOnTheGpuEndsTheJob) {
  const Result r =
      train("failing", "cuda --processes 2 --set train.max_steps=100000", "SACCADE_EMULATOR_NCCL_FAILS=1");
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_EQ(r.err.find("error: rank 1: [cuda] NCCL's work on the GPU: remote process exited"), 0U) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

TEST_F(CudaRanks, LaunchesThatWaitAreRefused) {
  for (const char* name : {"CUDA_LAUNCH_BLOCKING", "SACCADE_CUDA_SYNC"}) {
    const Result r = train("refused", "cuda --processes 2", fmt::format("{}=1", name));
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.err.find(fmt::format("error: {}=1: several ranks with GPUs would wait for each other", name)),
              0U)
        << r.err;
    EXPECT_FALSE(fs::exists(run_folder("refused")));
  }
}

TEST_F(CudaRanks, EachProcessNeedsAGpuOfItsOwn) {
  for (const auto& [device, words] :
       {std::pair("cuda:1", "error: rank 0 and rank 1 have the same GPU (0000:01:00.0), expected"),
        std::pair("cuda", "error: --device cuda: GPU 2 for rank 2: no NVIDIA GPU can be used")}) {
    const Result r = train("refused", fmt::format("{} --processes {}", device, device[4] ? 2 : 3));
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.err.find(words), 0U) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

}  // namespace
}  // namespace saccade
