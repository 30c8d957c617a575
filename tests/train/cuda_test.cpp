// Tests the same seed, configuration and checkpoint on the CPU and on the GPU: on a machine with a GPU, or on
// the emulated one of tests/cuda_emulator in an emulated build.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include "autograd/scope.h"
#include "core/runtime/gpu.h"
#include "core/tensor/device.h"
#include "data/evaluation/detections.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"

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
  static constexpr const char* kModel = R"(model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer { hidden_dim: 32 heads: 4 encoder_layers: 1 decoder_layers: 2 ffn_dim: 32 queries: 10 levels: 3
                dropout: 0.1 } deformable_detr { box_refine: true }
})";
  static constexpr const char* kAugment = "height: 96 width: 96 scale_min: 0.8 scale_max: 1.25";
  std::string train(const std::string& name, const std::string& device, const std::string& precision,
                    int steps, const std::vector<std::string>& more = {}, const std::string& model = kModel,
                    const std::string& augment = kAugment) {
    std::ofstream(folder_ / (name + ".textproto")) << model << R"(
data {
  train { annotations: ")" << data_ << R"(/annotations.json" images: ")"
                                                   << data_ << R"(/images" }
  batch_size: 2
  augment { )" << augment << R"( }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 1e-4 clip_norm: 0.1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: )" << steps << R"( log_every: 1 ema_decay: 0.9 }
precision: )" << precision << "\n";
    std::string output = folder_ / name;
    std::vector<std::string> words{"train",    "--config",      folder_ / (name + ".textproto"),
                                   "--output", output,          "--device",
                                   device,     "--trial-batch", trial_};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run_command(words), 0);
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
  std::string trial_ = "off";  // since the trial takes as long as two steps
};

TEST_F(CudaTraining, GivesTheLossesOfTheCpu) {
  trial_ = "auto";
  const int steps = std::getenv("SACCADE_FAST") ? 6 : 20;
  expect_close(train("cpu", "cpu", "f32", steps), train("cuda", "cuda", "f32", steps), 1e-4);
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

// Records whether the ops that it sees must give the same bits in every run.
struct DeterminismProbe : OpObserver {
  std::set<bool> seen;
  void observe(const Op&) override { seen.insert(execution().deterministic); }
};

TEST_F(CudaTraining, DeterminismIsTheConfigurations) {
  for (bool deterministic : {true, false}) {
    ExecutionScope scope;
    DeterminismProbe probe;
    execution().observer = &probe;
    train(deterministic ? "fixed" : "any_order", "cuda", fmt::format("f32\ndeterministic: {}", deterministic),
          1);
    EXPECT_EQ(probe.seen, std::set{deterministic});
  }
}

// Waiting for what has already happened does not count, and on a real GPU that depends on the time.
void expect_one_wait(const std::vector<double>& syncs, size_t steps) {
  ASSERT_EQ(syncs.size(), steps);
  for (double n : syncs) {
    EXPECT_GE(n, cuda_is_emulated() ? 1 : 0);
    EXPECT_LE(n, cuda_is_emulated() ? 1 : 2);
  }
}

// The host waits once a step, for the costs of the matching.
TEST_F(CudaTraining, WaitsOnceAStep) {
  for (std::string precision : {"f32", "bf16"}) {
    std::string run = train(precision, "cuda", precision, 4);
    std::vector<double> syncs = logged_numbers(run, "host_syncs"), launches = logged_numbers(run, "launches"),
                        allocations = logged_numbers(run, "allocations");
    expect_one_wait(syncs, 4);
    ASSERT_EQ(launches.size(), 4U);
    ASSERT_EQ(allocations.size(), 4U);
    // Forward and backward of about 60 parameters; nothing is launched or allocated for warming up alone.
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_GT(launches[i], 200);
      EXPECT_GT(allocations[i], 200);
    }
  }
}

// RT-DETR with denoising has the losses of the CPU and waits once a step.
TEST_F(CudaTraining, RtDetrGivesTheLossesOfTheCpu) {
  const std::vector<std::string> rt_detr{"--set", "model.type=rt_detr",
                                         "--set", "model.deformable_detr.box_refine=false",
                                         "--set", "model.backbone.variant=d",
                                         "--set", "model.backbone.outputs=2,3,4",
                                         "--set", "model.rt_detr.hybrid_encoder={dim: 16 ffn_dim: 16}",
                                         "--set", "model.transformer.hidden_dim=16",
                                         "--set", "model.transformer.denoising.queries=4",
                                         "--set", "data.augment.height=64",
                                         "--set", "data.augment.width=64"};
  const std::string run = train("rt_cuda", "cuda", "f32", 2, rt_detr);
  expect_close(train("rt_cpu", "cpu", "f32", 2, rt_detr), run, 1e-4);
  expect_one_wait(logged_numbers(run, "host_syncs"), 2);
}

// Only images, targets and scalars are uploaded, and the host waits once, even if batches are padded
// differently in every step. The launches of a step are bounded by what they were when the row was written,
// so that they do not creep up.
TEST_F(CudaTraining, UploadsImagesAndTargetsAlone) {
  const std::string
      small = "hidden_dim: 32 heads: 4 encoder_layers: 1 decoder_layers: 2 ffn_dim: 32 queries: 10 ",
      resnet = "backbone { blocks: [1, 1, 1, 1] width: 8 } ", denoising = "denoising { queries: 4 } ",
      rt_detr =
          R"(model { type: "rt_detr" backbone { blocks: [1, 1, 1, 1] width: 8 variant: "d" outputs: [2, 3, 4] }
                 rt_detr { hybrid_encoder { dim: 16 ffn_dim: 16 } } transformer { levels: 3 )" +
          small;
  struct Row {
    const char* name;
    std::string model;
    double launches;      // bf16
    bool for_sanitizers;  // the others are left to builds without a sanitizer
  };
  const Row rows[] = {
      {"plain", "model { " + resnet + "transformer { levels: 4 " + small + "} }", 490, false},
      {"two_stage",
       "model { " + resnet + "transformer { levels: 4 " + small +
           "} deformable_detr { box_refine: true two_stage: true } }",
       535, true},
      {"detr", "model { type: \"detr\" " + resnet + "transformer { " + small + "} }", 420, false},
      {"dino", "model { type: \"dino\" " + resnet + "transformer { levels: 4 " + small + denoising + "} }",
       700, false},
      {"rt_detr", rt_detr + "} }", 1085, false},
      {"rt_detr_denoising", rt_detr + denoising + "} }", 1190, true},
      {"dat",
       R"(model { backbone { type: "dat" arg { key: "blocks" string: "L S D D" } arg { key: "dims" ints: [8, 8, 16, 16] }
                 arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "groups" ints: [1, 1, 1, 2] } arg { key: "window" int: 4 }
                 arg { key: "image_size" int: 64 } outputs: [2, 3, 4] } transformer { levels: 3 )" +
           small + "} }",
       665, true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    if (std::getenv("SACCADE_FAST") && !row.for_sanitizers) continue;
    const std::string run =
        train(row.name, "cuda", "bf16", 3, {}, row.model, "short_sides: [32, 48, 64] long_side: 64");
    expect_one_wait(logged_numbers(run, "host_syncs"), 3);
    const std::vector<double> uploaded = logged_numbers(run, "uploaded_bytes"),
                              launches = logged_numbers(run, "launches");
    ASSERT_EQ(uploaded.size(), 3U);
    for (double bytes : uploaded) EXPECT_LT(bytes, 2 * 64 * 64 * 3 + (64 << 10));
    EXPECT_LE(launches.back(), row.launches);
  }
}

// This holds for a run that stops and continues, too.
TEST_F(CudaTraining, IsRepeatedToTheBit) {
  for (std::string precision : {"f32", "bf16"}) {
    std::string whole = train("whole_" + precision, "cuda", precision, 3),
                parts = train("parts_" + precision, "cuda", precision, 3, {"--set", "train.max_steps=1"});
    EXPECT_EQ(losses_of(parts).size(), 1U);
    EXPECT_EQ(train("parts_" + precision, "cuda", precision, 3, {"--resume"}), parts);
    std::string want = read_bytes(whole + "/checkpoints/last.safetensors");
    EXPECT_GT(want.size(), 10000U);
    EXPECT_TRUE(want == read_bytes(parts + "/checkpoints/last.safetensors")) << precision;
    EXPECT_EQ(losses_of(whole), losses_of(parts));
  }
}

// Boxes agree to a hundredth of a pixel, scores to 1e-5. Nearly equal scores may come in another order.
void expect_same_detections(const std::vector<Detection>& want, const std::vector<Detection>& got) {
  EXPECT_EQ(want.size(), got.size());
  for (const Detection& a : want) {
    EXPECT_TRUE(std::any_of(got.begin(), got.end(),
                            [&](const Detection& b) {
                              double difference = 0;
                              for (size_t i = 0; i < 4; ++i)
                                difference = std::max(difference, std::abs(a.bbox[i] - b.bbox[i]));
                              return a.image_id == b.image_id && a.category_id == b.category_id &&
                                     difference < 0.01 && std::abs(a.score - b.score) < 1e-5;
                            }))
        << "image " << a.image_id << ", category " << a.category_id << ", score " << a.score;
  }
}

// The file of `saccade predict` names pictures instead of image ids: the digits of the name are the id.
std::vector<Detection> read_predictions(const std::string& path) {
  const std::regex entry(
      R"re("file_name": "[^"0-9]*([0-9]+)[^"]*", "category_id": ([0-9]+), "bbox": \[(.*), (.*), (.*), (.*)\], "score": ([^}]*))re");
  std::vector<Detection> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::smatch m;
    if (!std::regex_search(line, m, entry)) continue;
    out.push_back({std::stoll(m[1]),
                   std::stoll(m[2]),
                   {std::stod(m[3]), std::stod(m[4]), std::stod(m[5]), std::stod(m[6])},
                   std::stod(m[7])});
  }
  return out;
}

TEST_F(CudaTraining, EvaluatesAsTheCpu) {
  std::string checkpoint = train("model", "cpu", "f32", 2) + "/checkpoints/last.safetensors";
  auto detections = [&](const std::string& device) {
    std::string file = folder_ / (device + ".json");
    EXPECT_EQ(run_command({"eval", "--checkpoint", checkpoint, "--annotations", data_ + "/annotations.json",
                           "--images", data_ + "/images", "--detections", file, "--device", device}),
              0);
    return read_detections(file);
  };
  std::vector<Detection> want = detections("cpu");
  EXPECT_EQ(want.size(), 8U * 10 * 6);  // images, queries, classes
  expect_same_detections(want, detections("cuda"));
}

TEST_F(CudaTraining, PredictsAsTheCpu) {
  std::string checkpoint = train("model", "cpu", "f32", 2) + "/checkpoints/last.safetensors";
  auto predictions = [&](const std::string& device) {
    std::string output = folder_ / ("predicted_" + device);
    EXPECT_EQ(run_command({"predict", "--checkpoint", checkpoint, "--output", output, "--threshold", "0",
                           "--sampling-points", "--device", device, data_ + "/images"}),
              0);
    return read_predictions(output + "/detections.json");
  };
  std::vector<Detection> want = predictions("cpu");
  EXPECT_EQ(want.size(), 8U * 10 * 6);
  expect_same_detections(want, predictions("cuda"));
}

}  // namespace
}  // namespace saccade
