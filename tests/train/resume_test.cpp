// The program itself, with a real model on the synthetic shapes: two runs, a stopped one and a killed one end
// byte-equal.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "core/tensor/philox.h"
#include "data/images/image.h"
#include "tests/test_folder.h"

extern char** environ;

namespace saccade {
namespace {

constexpr const char* kResumeConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 5 levels: 3
                dropout: 0.1 box_refine: true }
}
data {
  train { annotations: "DIR/shapes/annotations.json" images: "DIR/shapes/images" }
  val { annotations: "DIR/shapes/annotations.json" images: "DIR/shapes/images" }
  batch_size: 2
  workers: 2
  augment { height: 64 width: 64 scale_min: 0.8 scale_max: 1.2 }
  val_height: 64
  val_width: 64
}
schedule { type: "cosine" warmup_steps: 3 }
train { epochs: 2 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 3 ema_decay: 0.9 }
)";

constexpr const char* kClassifier = R"(
model { type: "classifier" backbone { blocks: [1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 } }
criterion { label_smoothing: 0.1 }
data {
  train { images: "DIR/classes" }
  val { images: "DIR/classes" }
  batch_size: 4
  workers: 2
  augment { height: 32 width: 32 crop_area_min: 0.3 brightness: 0.3 erase_probability: 0.5 }
  mix { mixup_alpha: 0.8 cutmix_alpha: 1 }
  val_height: 32
  val_width: 32
  val_center: 0.875
}
optimizer { no_decay_1d: true }
schedule { type: "cosine" warmup_epochs: 1 warmup_ratio: 0.1 }
train { epochs: 2 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 1 ema_decay: 0.9 accumulate: 2 }
)";

// Twelve noise images of three classes.
void make_classes(const TestFolder& folder) {
  for (int i = 0; i < 12; ++i) {
    std::string name = fmt::format("classes/c{}/{}.png", i % 3, i);
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    Image image(40, 36);
    Rng rng(static_cast<uint64_t>(i));
    for (uint8_t& v : image.rgb) v = static_cast<uint8_t>(rng.next());
    write_png(image, folder / name);
  }
}

pid_t start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "saccade");
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, SACCADE_BINARY_DIR "/saccade", &actions, nullptr, pointers.data(), environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

int finish(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

struct ResumeCase {
  const char *name, *config, *precision;
};
class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, EndsInTheSameBits) {
  TestFolder folder;
  ASSERT_EQ(finish(start({"data", "shapes", "--output", folder / "shapes", "--images", "8", "--seed", "5"})),
            0);
  make_classes(folder);
  std::string config = GetParam().config;
  for (size_t at; (at = config.find("DIR")) != std::string::npos;) config.replace(at, 3, folder.path());
  write_bytes(folder / "c.textproto", config);
  auto train = [&](const std::string& run, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"train",
                                       "--config",
                                       folder / "c.textproto",
                                       "--output",
                                       folder / run,
                                       "--set",
                                       std::string("precision=") + GetParam().precision};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(arguments);
  };
  auto expect_equal = [&](const std::string& run) {
    for (const char* name : {"last", "best"}) {
      auto bytes = [&](const std::string& r) {
        return read_bytes(folder / (r + "/checkpoints/" + name + ".safetensors"));
      };
      EXPECT_FALSE(bytes(run).empty()) << run;
      EXPECT_TRUE(bytes("whole") == bytes(run)) << run << ": " << name << " differs";
    }
  };
  ASSERT_EQ(finish(train("whole")), 0);
  if (std::string(GetParam().precision) == "bf16") {
    ASSERT_EQ(finish(train("stopped", {"--max-steps", "3"})), 0);
    ASSERT_EQ(finish(train("stopped", {"--resume"})), 0);
    expect_equal("stopped");
    return;
  }
  ASSERT_EQ(finish(train("again")), 0);
  expect_equal("again");

  pid_t child = train("killed");
  const std::string log = folder / "killed/metrics.jsonl";
  const auto begin = std::chrono::steady_clock::now();
  for (long lines = 0; lines < 3;) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(5))
        << "no three lines in " << log;
    std::string text = std::filesystem::exists(log) ? read_bytes(log) : "";
    lines = std::count(text.begin(), text.end(), '\n');
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  finish(child);
  ASSERT_EQ(finish(train("killed", {"--resume"})), 0);
  expect_equal("killed");
}

INSTANTIATE_TEST_SUITE_P(All, Resume,
                         testing::Values(ResumeCase{"f32", kResumeConfig, "f32"},
                                         ResumeCase{"bf16", kResumeConfig, "bf16"},
                                         ResumeCase{"classifier_f32", kClassifier, "f32"},
                                         ResumeCase{"classifier_bf16", kClassifier, "bf16"}),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace saccade
