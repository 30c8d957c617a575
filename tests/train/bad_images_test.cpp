// Tests images that cannot be read, from a run's start to its end.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/formats/safetensors.h"
#include "data/evaluation/detections.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"

namespace saccade {
namespace {

constexpr const char* kRecipe = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 16 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 10 levels: 1 dropout: 0 }
}
data { batch_size: 2 workers: 2 augment { height: 32 width: 32 } val_height: 32 val_width: 32 }
optimizer { learning_rate: 1e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 2 log_every: 1 }
)";

struct BadSet {
  TestFolder folder;
  std::string annotations = folder / "data/annotations.json", images = folder / "data/images";

  BadSet() {
    EXPECT_EQ(run_command({"data", "shapes", "--output", folder / "data", "--images", "8", "--seed", "1",
                           "--size", "40"}),
              0);
    write_bytes(folder / "config.textproto", kRecipe);
  }
  std::string image(int id) const { return images + "/00000" + std::to_string(id) + ".png"; }
  void cut(int id) {
    const std::string bytes = read_bytes(image(id));
    write_bytes(image(id), bytes.substr(0, bytes.size() / 2));
  }
  // Flips a bit, which only decoding shows.
  void damage(int id) {
    std::string bytes = read_bytes(image(id));
    bytes[bytes.size() / 2] ^= 1;
    write_bytes(image(id), bytes);
  }
  int train(const std::string& run, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"train", "--config", folder / "config.textproto", "--output",
                                   folder / run};
    for (const char* set : {"train", "val"})
      for (const std::string& path :
           {std::string(".annotations=") + annotations, std::string(".images=") + images})
        words.insert(words.end(), {"--set", std::string("data.") + set + path});
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
};

TEST(BadImages, EndARunBeforeItBegins) {
  BadSet set;
  set.cut(3);
  testing::internal::CaptureStderr();
  EXPECT_EQ(set.train("run"), 2);
  const std::string message = testing::internal::GetCapturedStderr();
  EXPECT_NE(message.find("000003.png: damaged image (the PNG file is cut off)"), std::string::npos)
      << message;
  EXPECT_FALSE(std::filesystem::exists(set.folder / "run"));
}

// What was trained before the image was met is saved, and when it has been mended the run continues as if
// nothing had happened.
TEST(BadImages, MetInMidRunLoseNoStep) {
  BadSet set;
  ASSERT_EQ(set.train("whole"), 0);
  const int kFirst = 1, kLast = 3;  // not all of them are in the first batch
  int64_t steps = 0;
  for (int id = kFirst; id <= kLast && steps == 0; ++id) {
    std::filesystem::remove_all(set.folder / "run");
    set.damage(id);
    EXPECT_EQ(set.train("run"), 2);
    set.damage(id);  // the same bit again
    if (std::filesystem::exists(set.folder / "run/checkpoints/last.safetensors"))
      steps = read_checkpoint_info(SafetensorsReader(set.folder / "run/checkpoints/last.safetensors")).step;
  }
  EXPECT_GT(steps, 0);
  ASSERT_EQ(set.train("run", {"--resume"}), 0);
  for (const char* file : {"checkpoints/last.safetensors", "checkpoints/best.safetensors"})
    EXPECT_EQ(read_bytes(set.folder / ("whole/" + std::string(file))),
              read_bytes(set.folder / ("run/" + std::string(file))))
        << file;
}

TEST(BadImages, AreSkippedCountedAndToldWhereTheConfigurationSaysSo) {
  BadSet set;
  set.damage(2);
  set.damage(5);
  const std::vector<std::string> skip{"--set", "data.bad_images=skip"};
  testing::internal::CaptureStdout();
  ASSERT_EQ(set.train("whole", skip), 0);
  const std::string told = testing::internal::GetCapturedStdout();
  for (const char* part : {"skipped, 1 so far: ", "skipped, 2 so far: ", "000002.png: damaged image",
                           "000005.png: damaged image"})
    EXPECT_NE(told.find(part), std::string::npos) << part << "\n" << told;
  // Another process that continues in the middle of an epoch computes the same weights.
  std::vector<std::string> half = skip;
  half.insert(half.end(), {"--max-steps", "3"});
  ASSERT_EQ(set.train("parts", half), 0);
  half = skip;
  half.push_back("--resume");
  ASSERT_EQ(set.train("parts", half), 0);
  EXPECT_EQ(read_bytes(set.folder / "whole/checkpoints/last.safetensors"),
            read_bytes(set.folder / "parts/checkpoints/last.safetensors"));
  // The checkpoint's configuration applies to its evaluation: bad images are left out.
  ASSERT_EQ(
      run_command({"eval", "--checkpoint", set.folder / "whole/checkpoints/last.safetensors", "--annotations",
                   set.annotations, "--images", set.images, "--detections", set.folder / "found.json"}),
      0);
  std::set<int64_t> images;
  for (const Detection& d : read_detections(set.folder / "found.json")) images.insert(d.image_id);
  EXPECT_EQ(images.size(), 6u);
}

TEST(BadImages, NamesThatLeadOutOfTheFolderNeedAFlag) {
  BadSet set;
  std::string text = read_bytes(set.annotations);
  const size_t at = text.find("000001.png");
  text.replace(at, 10, set.image(1));
  write_bytes(set.annotations, text);
  EXPECT_EQ(set.train("run"), 2);
  EXPECT_EQ(set.train("run", {"--max-steps", "1", "--set", "data.allow_outside=true"}), 0);
  const std::vector<std::string> check{"data",          "check",    "--annotations",
                                       set.annotations, "--images", set.images};
  EXPECT_EQ(run_command(check), 2);
  std::vector<std::string> allowed = check;
  allowed.emplace_back("--allow-outside");
  EXPECT_EQ(run_command(allowed), 0);
  std::vector<std::string> eval{
      "eval",          "--checkpoint",  set.folder / "run/checkpoints/last.safetensors",
      "--annotations", set.annotations, "--images",
      set.images};
  EXPECT_EQ(run_command(eval), 2);
  eval.emplace_back("--allow-outside");
  EXPECT_EQ(run_command(eval), 0);
  // The run may be a stranger's, so what its configuration allows does not apply to a page with pictures.
  std::vector<std::string> report{"report", set.folder / "run"};
  EXPECT_EQ(run_command(report), 2);
  report.emplace_back("--allow-outside");
  EXPECT_EQ(run_command(report), 0);
}

}  // namespace
}  // namespace saccade
