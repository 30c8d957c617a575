// Tests what the program says when the GPU cannot be used. Runs the emulated `saccade` with faults of the
// emulated GPU.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include "core/formats/safetensors.h"
#include "core/runtime/gpu.h"
#include "core/tensor/error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"

namespace saccade {
namespace {

struct Outcome {
  int status;
  std::string out, err;
};

class CudaErrors : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_emulated()) GTEST_SKIP() << "not an emulated build";
    std::string data = folder_ / "data";
    ASSERT_EQ(
        run_command({"data", "shapes", "--output", data, "--images", "4", "--seed", "1", "--size", "64"}), 0);
    write_bytes(folder_ / "tiny.textproto", R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 }
}
data {
  train { annotations: "data/annotations.json" images: "data/images" }
  batch_size: 2 workers: 1
  augment { height: 64 width: 64 }
  val_height: 64 val_width: 64
}
train { max_steps: 2 }
)");
  }
  // Runs `saccade WORDS`, written as in a shell, with a fault of the emulated GPU.
  Outcome run(const std::string& fault, const std::string& words) {
    std::string command = "cd '" + folder_.path() + "' && SACCADE_EMULATOR_FAULT=" + fault +
                          " '" SACCADE_BINARY_DIR "/saccade' " + words + " >out.txt 2>err.txt";
    int raw = std::system(command.c_str());
    return {WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw), read_bytes(folder_ / "out.txt"),
            read_bytes(folder_ / "err.txt")};
  }
  Outcome train(const std::string& fault, const std::string& device, const std::string& trial = "off") {
    return run(fault,
               "train --config tiny.textproto --output run --device " + device + " --trial-batch " + trial);
  }
  // Expects one line, and nothing left behind.
  void expect_error(const Outcome& outcome, int status, const std::string& line) {
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.err, "error: " + line + "\n");
  }

  TestFolder folder_;
};

TEST_F(CudaErrors, NamesWhyTheGpuCannotBeUsedAndAutoTakesTheCpu) {
  const std::pair<const char*, const char*> faults[] = {
      {"no_driver", "no NVIDIA driver is installed"},
      {"old_driver", "the NVIDIA driver supports CUDA 12.4, this program needs 13.0 or newer"},
      {"no_gpu", "no NVIDIA GPU can be used (no CUDA-capable device is detected)"},
      {"old_gpu", "emulated GPU has compute capability 7.5, this program needs 8.0 or newer"},
      {"no_pools",
       "emulated GPU does not support memory pools (cudaMallocAsync) here, which this program needs"},
      {"no_kernel_image",
       "emulated GPU has compute capability 9.0, this program only has code for the emulator"}};
  for (auto [fault, reason] : faults) {
    SCOPED_TRACE(fault);
    expect_error(train(fault, "cuda"), 2, std::string("--device cuda: ") + reason + "; expected auto or cpu");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
    Outcome fallback = train(fault, "auto");
    EXPECT_EQ(fallback.status, 0) << fallback.err;
    EXPECT_EQ(fallback.err, "");
    EXPECT_EQ(fallback.out.find(std::string("running on the CPU: ") + reason + "\n"), 0U) << fallback.out;
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(CudaErrors, AutoIsNotTheEmulatedGpu) {
  Outcome outcome = train("", "auto");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("running on the CPU"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("precision"), std::string::npos) << outcome.out;
}

// The weights fit, but a step does not: the checkpoint of the start stays.
TEST_F(CudaErrors, OutOfMemoryInAStepIsOneLineAndLeavesTheStart) {
  Outcome outcome = train("memory:1500000", "cuda");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err.find("error: [allocator] out of GPU memory: asked for "), 0U) << outcome.err;
  EXPECT_TRUE(std::regex_search(
      outcome.err,
      std::regex(
          " MiB \\((forward|backward) pass\\); .* MiB in live tensors \\(parameters 0\\.[1-9], optimizer "
          "0\\.[1-9], forward pass ")))
      << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with(" needs less memory\n")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  const SafetensorsReader last(folder_ / "run/checkpoints/last.safetensors");
  EXPECT_EQ(read_checkpoint_info(last).step, 0);
  EXPECT_EQ(read_bytes(folder_ / "run/metrics.jsonl"), "");
}

// An allocation in the first step's forward or backward pass fails: the step is repeated, and its numbers are
// those of a run that had room.
TEST_F(CudaErrors, AStepIsDoneAgainWhereThePoolHadNoRoom) {
  const auto weights = [&] {
    const std::string bytes = read_bytes(folder_ / "run/checkpoints/last.safetensors");
    EXPECT_GT(bytes.size(), 10000U);
    std::filesystem::remove_all(folder_ / "run");
    return bytes;
  };
  const Outcome with_room = train("", "cuda");
  EXPECT_EQ(with_room.status, 0) << with_room.err;
  EXPECT_NE(with_room.out.find("note: precision: f32 computes products exactly, "), std::string::npos)
      << with_room.out;
  const std::string want = weights();
  for (const char* number : {"150", "200"}) {
    SCOPED_TRACE(number);
    const Outcome outcome = train(std::string("full_at:") + number, "cuda");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("step 1 is repeated: [allocator] out of GPU memory: asked for "),
              std::string::npos)
        << outcome.out;
    EXPECT_TRUE(weights() == want);
  }
}

// Where a recording finds no memory, one line says so, and the passes give the same numbers without one.
TEST_F(CudaErrors, PassesThatCannotBeRecordedForWantOfMemoryAreTold) {
  ASSERT_EQ(train("", "cpu").status, 0);
  std::string detections;
  for (const char* call : {"", "call:cudaMalloc", "call:cudaGraphInstantiate"}) {
    SCOPED_TRACE(call);
    const Outcome outcome = run(
        call,
        "eval --checkpoint run/checkpoints/last.safetensors --annotations data/annotations.json --images data/images "
        "--batch-size 1 --detections found.json --device cuda");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const std::string note = "forward passes are not recorded, so the host needs more time: [";
    const size_t at = outcome.err.find(note);
    EXPECT_EQ(at != std::string::npos, *call != 0) << outcome.err;
    if (*call) {
      EXPECT_EQ(outcome.err.find(note, at + 1), std::string::npos) << outcome.err;
    }
    const std::string found = read_bytes(folder_ / "found.json");
    EXPECT_GT(found.size(), 100U);
    if (!*call) detections = found;
    EXPECT_EQ(found, detections);
    std::filesystem::remove(folder_ / "found.json");
  }
}

TEST_F(CudaErrors, WhatExactProductsCostIsTold) {
  ASSERT_EQ(train("", "cpu").status, 0);
  const std::string note = "note: precision: f32 computes products exactly, ",
                    checkpoint = " --checkpoint run/checkpoints/last.safetensors ",
                    eval = "eval" + checkpoint +
                           "--annotations data/annotations.json --images data/images --device ";
  const std::pair<std::string, bool> cases[] = {
      {eval + "cuda", true},
      {eval + "cuda --precision tf32", false},
      {eval + "cuda --set precision=bf16", false},
      {eval + "cpu", false},
      {"predict" + checkpoint + "--output predicted data/images --device cuda", true}};
  for (const auto& [words, told] : cases) {
    SCOPED_TRACE(words);
    const Outcome outcome = run("", words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out.find(note) != std::string::npos, told) << outcome.out;
  }
}

// CUDA has been started with two GPUs before one is chosen, so nothing can make the second one ours.
TEST_F(CudaErrors, ANumberIsTooLateInAProcessThatUsesCuda) {
  const std::pair<const char*, const char*> cases[] = {{"2", "cuda:1"}, {"2", "cuda:0"}, {"1", "cuda:1"}};
  for (const auto& [gpus, device] : cases) {
    SCOPED_TRACE(device);
    ::setenv("SACCADE_EMULATOR_GPUS", gpus, 1);
    expect_error(
        train("used_before", device), 2,
        fmt::format("--device {}: this process has already used CUDA (visible GPUs: {}); expected cuda, the "
                    "first of them, or CUDA_VISIBLE_DEVICES={} before the first use",
                    device, gpus, device + 5));
  }
  EXPECT_EQ(train("used_before", "cuda:0").status, 0);
  ::unsetenv("SACCADE_EMULATOR_GPUS");
}

TEST_F(CudaErrors, TheTrialFindsOutOfMemoryBeforeTheRunBegins) {
  const Outcome outcome = train("memory:1500000", "cuda", "auto");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err.find("error: the largest batch (2 images of 64 x 64) does not fit: "), 0U)
      << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoints/last.safetensors"));
}

}  // namespace
}  // namespace saccade
