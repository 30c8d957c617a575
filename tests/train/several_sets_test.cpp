// Tests some classes and several data sets through the commands, from training to the metrics.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "data/evaluation/detections.h"
#include "data/formats/data_format.h"
#include "tests/data/formats/test_sets.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "train/checkpoints/checkpoint.h"
#include "train/config/config.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

using test::kDetectionFormats;
using test::write_set;

constexpr const char* kSeveralConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 10 levels: 1 dropout: 0 }
}
data { batch_size: 2 augment { height: 32 width: 32 } val_height: 32 val_width: 32 }
optimizer { learning_rate: 1e-3 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 4 log_every: 1 eval_every_epochs: 0 }
)";

struct Outcome {
  int status;
  std::string out, err;
};
Outcome run_quietly(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_command(words);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}
void expect_part(const Outcome& outcome, const std::string& part) {
  EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " not in " << outcome.out << outcome.err;
}

// Writes two sets: A of cats and dogs, B of dogs and ants; only A has a validation split.
void write_two(const TestFolder& dir, const std::string& first, const std::string& second) {
  write_set(dir / "A", first, "train", {{"a.png", "cat"}, {"b.png", "dog"}, {"c.png", "cat"}});
  write_set(dir / "A", first, "val", {{"d.png", "cat"}, {"e.png", "dog"}});
  write_set(dir / "B", second, "train", {{"a.png", "ant"}, {"b.png", "dog"}, {"c.png", "ant"}});
  write_bytes(dir / "config.textproto", kSeveralConfig);
}

TEST(SeveralSets, TrainResumeEvaluateAndReport) {
  TestFolder dir;
  write_two(dir, "yolo", "coco");
  const std::vector<std::string> data{"--data", dir / "A", "--data", dir / "B"};
  auto run = [&](std::vector<std::string> words, const std::vector<std::string>& more = {}) {
    words.insert(words.end(), more.begin(), more.end());
    return run_quietly(words);
  };
  const std::vector<std::string> train{"train", "--config", dir / "config.textproto", "--output"};
  auto to = [&](const std::string& run_folder) {
    std::vector<std::string> words = train;
    words.push_back(dir / run_folder);
    words.insert(words.end(), data.begin(), data.end());
    return words;
  };
  const Outcome trained = run(to("whole"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  expect_part(trained, "6 images, 3 classes");
  expect_part(trained, "B: has no val images; those of the other data sets are used");
  expect_part(trained,
              "1 class has objects in the training set, but none here, and so no metrics: \"ant\" 2");
  ASSERT_EQ(run(to("parts"), {"--max-steps", "2"}).status, 0);
  ASSERT_EQ(run({"train", "--output", dir / "parts", "--resume"}).status, 0);
  const std::string last = dir / "whole/checkpoints/last.safetensors";
  EXPECT_TRUE(read_bytes(last) == read_bytes(dir / "parts/checkpoints/last.safetensors"));
  const CheckpointInfo info = read_checkpoint_info(SafetensorsReader(last));
  EXPECT_EQ(info.class_names, (std::vector<std::string>{"cat", "dog", "ant"}));
  const Config saved = load_config(dir / "whole/config.textproto");
  EXPECT_EQ(saved.data().folder(), dir / "A");
  ASSERT_EQ(saved.data().more_folders_size(), 1);

  // Alone, B has other ids than the union; the names count.
  const Outcome alone = run({"eval", "--checkpoint", last, "--data", dir / "B", "--split", "train"});
  EXPECT_EQ(alone.status, 0) << alone.err;
  const std::string found = dir / "d.json", figures = dir / "f.json", scored = dir / "s.json";
  const Outcome both = run({"eval", "--checkpoint", last, "--split", "train", "--detections", found, "--json",
                            figures, "--classes", "dog,ant"},
                           data);
  ASSERT_EQ(both.status, 0) << both.err;
  expect_part(both, "2 of 6 boxes left out, those of 1 class: \"cat\" 2");
  for (const Detection& d : read_detections(found)) EXPECT_TRUE(d.category_id == 2 || d.category_id == 11);
  ASSERT_EQ(run({"score", "--checkpoint", last, "--split", "train", "--detections", found, "--json", scored,
                 "--classes", "ant,dog"},
                data)
                .status,
            0);
  EXPECT_EQ(read_bytes(figures), read_bytes(scored));
  EXPECT_EQ(run({"report", dir / "whole"}).status, 0);
  EXPECT_EQ(run({"report", dir / "whole", "--classes", "cat", "--output", dir / "cat.html"}).status, 0);
  const Outcome unknown = run({"report", dir / "whole", "--classes", "kat"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("did you mean \"cat\"?"), std::string::npos) << unknown.err;
}

TEST(SeveralSets, AreCheckedReportedAndConvertedInEveryFormat) {
  for (const std::string& first : kDetectionFormats)
    for (const std::string& second : {std::string("coco"), std::string("csv")}) {
      SCOPED_TRACE(first + " " + second);
      TestFolder dir;
      write_two(dir, first, second);
      const std::vector<std::string> data{"--data", dir / "A", "--data", dir / "B"};
      auto with_data = [&](std::vector<std::string> words) {
        words.insert(words.end(), data.begin(), data.end());
        return run_quietly(words);
      };
      Outcome outcome = with_data({"data", "check"});
      EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
      expect_part(outcome, "6 images, 0 without boxes; 6 boxes, among them 0 crowds; 3 categories");
      expect_part(outcome, "B: has no val images");
      outcome = with_data({"data", "check", "--classes", "ant"});
      EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
      expect_part(outcome, "3 of 3 boxes left out, those of 2 classes: \"cat\" 2, \"dog\" 1");
      expect_part(outcome, "1 of 3 boxes left out, those of 1 class: \"dog\" 1");
      expect_part(outcome, "3 images have no object of these classes and stay as images without objects");
      EXPECT_EQ(with_data({"data", "report", "--output", dir / "page.html"}).status, 0);
      EXPECT_EQ(run_quietly(
                    {"data", "convert", dir / "A", dir / "all", "--data", dir / "B", "--classes", "ant,cat"})
                    .status,
                0);
      const GroundTruth all = read_ground_truth({dir / "all/train.json", ""});
      EXPECT_EQ(all.images.size(), 6u);
      EXPECT_EQ(all.annotations.size(), 4u);
      EXPECT_EQ(all.categories.size(), 2u);
      EXPECT_EQ(
          run_quietly({"data", "check", "--annotations", dir / "all/train.json", "--images", dir.path()})
              .status,
          0);
      EXPECT_EQ(
          with_data({"data", "show", "--config", dir / "config.textproto", "--output", dir / "seen"}).status,
          0);
    }
}

TEST(SeveralSets, OfAConfigurationPathByPath) {
  TestFolder dir;
  write_two(dir, "voc", "csv");
  const Outcome trained = run_quietly(
      {"train", "--config", dir / "config.textproto", "--output", dir / "run", "--max-steps", "1", "--set",
       "data.train={annotations: \"" + dir / "A/train" + "\" images: \"" + dir / "A/train" + "\"}", "--set",
       "data.more_train={annotations: \"" + dir / "B/train/_annotations.csv" + "\" images: \"" +
           dir / "B/train" + "\"}",
       "--set", "data.val={annotations: \"" + dir / "A/val" + "\" images: \"" + dir / "A/val" + "\"}",
       "--set", "data.class_map.ant=bug", "--set", "data.class_map.dog="});
  ASSERT_EQ(trained.status, 0) << trained.err;
  expect_part(trained, "6 images, 2 classes");
  expect_part(trained, "boxes mapped to other classes: \"ant\" 2 as \"bug\"");
  const CheckpointInfo info =
      read_checkpoint_info(SafetensorsReader(dir / "run/checkpoints/last.safetensors"));
  EXPECT_EQ(info.class_names, (std::vector<std::string>{"cat", "bug"}));
  // The annotations have the old names, and are evaluated like the run's.
  EXPECT_EQ(run_quietly({"eval", "--checkpoint", dir / "run/checkpoints/last.safetensors", "--data",
                         dir / "B", "--split", "train"})
                .status,
            0);
}

// A validation set that is the training set is reported, whatever the format.
TEST(SeveralSets, AValidationSetThatIsTheTrainingSetIsSaid) {
  for (const std::string& format : kDetectionFormats) {
    SCOPED_TRACE(format);
    TestFolder dir;
    write_two(dir, format, "csv");
    const std::string own = dir / "A/train";
    const std::map<std::string, std::string> lists{{"coco", "/_annotations.coco.json"},
                                                   {"yolo", "/../data.yaml"},
                                                   {"voc", ""},
                                                   {"csv", "/_annotations.csv"}};
    const std::string set = "={annotations: \"" + own + lists.at(format) + "\" images: \"" + own +
                            (format == "yolo" ? "/images" : "") + "\"}";
    const Outcome trained =
        run_quietly({"train", "--config", dir / "config.textproto", "--output", dir / "run", "--max-steps",
                     "1", "--set", "data.train" + set, "--set", "data.val" + set});
    ASSERT_EQ(trained.status, 0) << trained.err;
    expect_part(trained, "3 of 3 images are also in the training set");
    fs::rename(dir / "run", dir / "other");
  }
}

TEST(SeveralSets, OfClassifiers) {
  TestFolder dir;
  for (const char* name : {"A/train/cat/1.png", "A/train/dog/1.png", "A/val/cat/2.png", "A/val/dog/2.png",
                           "B/train/cat/1.png", "B/train/ant/1.png"})
    test::write_picture(dir / name);
  fs::copy(SACCADE_SOURCE_DIR "/tests/train/bad_inputs/classes.textproto", dir / "config.textproto");
  const std::vector<std::string> data{"--data", dir / "A", "--data", dir / "B"};
  auto with_data = [&](std::vector<std::string> words) {
    words.insert(words.end(), data.begin(), data.end());
    return run_quietly(words);
  };
  const Outcome trained = with_data({"train", "--config", dir / "config.textproto", "--output", dir / "run"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  expect_part(trained, "4 images of 3 classes are used");
  expect_part(trained, "has no images of 1 of the classes, for example \"ant\"");
  const std::string last = dir / "run/checkpoints/last.safetensors";
  const Outcome judged = with_data({"eval", "--checkpoint", last, "--split", "train", "--classes", "ant"});
  EXPECT_EQ(judged.status, 0) << judged.err;
  expect_part(judged, "3 of 4 images left out, those of 2 classes: \"cat\" 2, \"dog\" 1");
  EXPECT_EQ(with_data({"eval", "--checkpoint", last, "--classes", "art"}).status, 2);
  EXPECT_EQ(with_data({"data", "check"}).status, 0);
  EXPECT_EQ(with_data({"data", "report", "--output", dir / "page.html", "--classes", "cat,ant"}).status, 0);
  const Outcome some = with_data(
      {"train", "--config", dir / "config.textproto", "--output", dir / "some", "--classes", "ant,cat"});
  ASSERT_EQ(some.status, 0) << some.err;
  EXPECT_EQ(read_checkpoint_info(SafetensorsReader(dir / "some/checkpoints/last.safetensors")).class_names,
            (std::vector<std::string>{"ant", "cat"}));
}

}  // namespace
}  // namespace saccade
