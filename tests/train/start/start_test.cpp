// Tests choosing and starting: a recipe by name fitted to the data, what is said before the first step, and
// the trial of the largest batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/tensor/philox.h"
#include "data/images/image.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/config/fine_tuning.h"
#include "train/config/recipes.h"
#include "train/config/schema/config_changes.h"
#include "train/inference/largest_batch.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

Config fitted(const std::string& recipe, const std::string& folder, const std::vector<std::string>& sets = {},
              bool has_weights = true, const QuickFlags& quick = {}) {
  DataFlags data;
  if (!folder.empty()) data.folders = {folder};
  return resolve_config(fit_recipe(find_recipe(recipe, "--model"), data, sets, has_weights, quick).config);
}

TEST(Recipes, AreKnownByName) {
  EXPECT_GE(recipes().size(), 40u);
  for (const Recipe& recipe : recipes()) {
    EXPECT_FALSE(recipe.title().empty()) << recipe.name;
    EXPECT_EQ(recipe.text,
              read_bytes(std::string(SACCADE_SOURCE_DIR "/configs/") + recipe.name + ".textproto"));
  }
  EXPECT_NE(input_error([] {
              find_recipe("rt_detr_18", "--model");
            }).find("--model: no recipe \"rt_detr_18\", did you mean \"rt_detr_r18\"?"),
            std::string::npos);
}

TEST(Recipes, FollowTheData) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "few", "--images", "20", "--seed", "1"}), 0);
  const std::string few = dir / "few";
  // 18 images are left after the drawn validation set: 8 batches of 2 make the step of 16.
  Config c = fitted("rt_detr_r18", few);
  EXPECT_EQ(c.data().folder(), few);
  EXPECT_EQ(c.model().num_classes(), 0);
  EXPECT_EQ(c.data().batch_size(), 2);
  EXPECT_EQ(c.train().accumulate(), 8);
  EXPECT_DOUBLE_EQ(c.optimizer().learning_rate(), 1e-4);
  EXPECT_EQ(c.train().epochs(), 72);
  // What the user sets stays, and the rate follows the user's batch.
  c = fitted("rt_detr_v2_r18", few, {"data.batch_size=4", "train.epochs=10"});
  EXPECT_EQ(c.data().batch_size(), 4);
  EXPECT_DOUBLE_EQ(c.optimizer().learning_rate(), 1e-4 * 4 / 16);
  EXPECT_EQ(c.schedule().warmup_steps(), 4) << "a tenth of 45 steps";
  EXPECT_EQ(c.train().accumulate(), 1);
  // So do flags, but batches are accumulated.
  c = fitted("rt_detr_v2_r18", few, {}, true, {.epochs = 10, .batch = 4});
  EXPECT_EQ(c.data().batch_size(), 4);
  EXPECT_EQ(c.train().accumulate(), 4);
  EXPECT_DOUBLE_EQ(c.optimizer().learning_rate(), 1e-4);
  EXPECT_EQ(c.train().epochs(), 10);
  c = fitted("rt_detr_v2_r18", few, {"train.accumulate=2"}, true, {.batch = 4, .learning_rate = 3e-4});
  EXPECT_EQ(c.train().accumulate(), 2);
  EXPECT_EQ(c.optimizer().learning_rate(), 3e-4);
  c = fitted("detr_r50", few, {"optimizer.learning_rate=0.5"});
  EXPECT_EQ(c.optimizer().learning_rate(), 0.5);
  EXPECT_EQ(c.data().labels(), config::contiguous) << "its own are COCO's ids";
  // The backbone of DETR's recipe is partly frozen, which needs pretrained weights.
  EXPECT_EQ(c.model().backbone().frozen_stages(), 2);
  c = fitted("detr_r50", few, {}, false);
  EXPECT_EQ(c.model().backbone().frozen_stages(), 0);
  EXPECT_FALSE(c.model().backbone().frozen_batch_norm());
  c = fitted("detr_r50", few, {"model.backbone.frozen_stages=1"}, false);
  EXPECT_EQ(c.model().backbone().frozen_stages(), 1);
  // Without a folder the recipe is unchanged.
  c = fitted("rt_detr_r18", "");
  EXPECT_EQ(c.data().batch_size(), 16);
  EXPECT_EQ(c.model().num_classes(), 80);
}

// Only the size is given: the sizes of batches and of the evaluation stay the recipe's, which is reported.
TEST(Recipes, OtherSizesThatStillCountAreSaid) {
  const Recipe& recipe = find_recipe("rt_detr_r18", "--model");
  auto warnings = [&](std::vector<std::string> sets) {
    for (const char* side : {"height", "width"}) sets.push_back(fmt::format("data.augment.{}=320", side));
    std::string text;
    for (const std::string& note : fit_recipe(recipe, {}, sets, true).notes)
      if (note.starts_with("warning: ")) text += note + "\n";
    return text;
  };
  EXPECT_NE(warnings({}).find("batches are 480 to 800 pixels high (data.augment.multi_scale_heights)"),
            std::string::npos);
  EXPECT_NE(warnings({}).find("evaluation is still at 640 x 640 pixels"), std::string::npos);
  EXPECT_EQ(warnings({"data.augment.multi_scale_heights=[]", "data.val_height=320", "data.val_width=320"}),
            "");
}

TEST(Recipes, WarningsOfAFile) {
  const Config read = parse_config(find_recipe("detr_r50", "").text, "detr_r50");
  Config edited = read;
  apply_set(edited, "data.batch_size=2");
  const std::vector<std::string> warnings = config_warnings(read, edited, false);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("2 images per step, where the recipe has 16, but the same"), std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[0].find("1.25e-05"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("random weights"), std::string::npos) << warnings[1];
  EXPECT_TRUE(config_warnings(read, read, true).empty());
}

TEST(LargestBatch, OfEachWayToSizeImages) {
  struct Row {
    const char* data;
    std::vector<ImageSize> images;
    ImageSize expected;
  };
  const char* lying = "augment { crop_probability: 0 }";
  const Row rows[] = {
      {"augment { height: 64 width: 96 }", {}, {64, 96}},
      {"augment { height: 64 width: 96 multi_scale_heights: [32, 80] }", {}, {80, 120}},
      {"augment { height: 60 width: 96 } pad_multiple: 32", {}, {64, 96}},
      {lying, {{480, 640}, {300, 900}}, {800, 1332}},
      {lying, {{480, 640}, {640, 480}}, {1066, 1066}},
      {lying, {{0, 0}}, {1333, 1333}},
      {"augment { crop_probability: 0.5 }", {{480, 640}}, {1333, 1333}},
      {"augment { crop_probability: 0.5 } batch_size: 1", {{480, 640}}, {800, 1333}},
      {"augment { crop_probability: 0 short_sides: [100, 200] long_side: 150 }", {{100, 100}}, {150, 150}},
  };
  for (const Row& row : rows) {
    const Config config = resolve_config(parse_config(std::string("data { ") + row.data + " }", "test"));
    const ImageSize size = largest_batch_size(config, row.images);
    EXPECT_EQ(size, row.expected) << row.data << " " << size.height << " x " << size.width;
  }
  const Config config = resolve_config(
      parse_config("data { batch_size: 3 augment { height: 32 width: 32 mosaic: 1 } }", "test"));
  const Batch batch = largest_batch(config, {}, 2);
  EXPECT_EQ(batch.images.shape(), (Shape{3, 32, 32, 3}));
  EXPECT_EQ(batch.targets.at(2).instances.size(), 8u);
}

// The configuration has everything that a trial could change: batch norm that learns, dropout, denoising,
// averages, accumulation.
constexpr const char* kMovingConfig = R"(
model {
  type: "rt_detr"
  backbone { blocks: [1, 1, 1, 1] width: 8 variant: "d" frozen_batch_norm: false frozen_stages: 0 }
  transformer { hidden_dim: 16 heads: 2 decoder_layers: 2 ffn_dim: 16 queries: 10 dropout: 0.1
                denoising { queries: 10 } } rt_detr { hybrid_encoder { dim: 16 ffn_dim: 16 expansion: 0.5 } }
}
data { batch_size: 2 augment { height: 64 width: 64 multi_scale_heights: [64, 96] } val_height: 64 val_width: 64 }
optimizer { learning_rate: 1e-3 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 4 eval_every_epochs: 0 ema_decay: 0.9 accumulate: 2 }
)";

TEST(TrialBatch, ChangesNoByteOfTheTraining) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "data", "--images", "12", "--seed", "1"}), 0);
  write_bytes(dir / "config.textproto", kMovingConfig);
  for (const char* trial : {"on", "off"}) {
    testing::internal::CaptureStdout();
    const int status = run_command({"train", "--config", dir / "config.textproto", "--data", dir / "data",
                                    "--output", dir / trial, "--trial-batch", trial});
    const std::string out = testing::internal::GetCapturedStdout();
    ASSERT_EQ(status, 0) << out;
    EXPECT_EQ(out.find("the largest batch, 2 images of 96 x 96, takes") != std::string::npos, trial[1] == 'n')
        << out;
    EXPECT_NE(out.find("learning rate 0.001 (adamw, constant)"), std::string::npos) << out;
  }
  EXPECT_TRUE(read_bytes(dir / "on/checkpoints/last.safetensors") ==
              read_bytes(dir / "off/checkpoints/last.safetensors"));
}

// A recipe that accumulates batches accumulates fewer before its batch shrinks, and never grows.
TEST(Recipes, FitTheirStepToTheData) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "data", "--images", "40", "--seed", "1"}), 0);
  const auto step = [&](const std::vector<std::string>& sets) {
    const Config c = fitted("quickstart", dir / "data", sets);
    return std::pair(c.data().batch_size(), c.train().accumulate());
  };
  using Step = std::pair<int, int>;  // 36 images to train on, an eighth of which is 4
  EXPECT_EQ(step({"train.accumulate = 8"}), Step(1, 8));
  EXPECT_EQ(step({"data.batch_size = 2", "train.accumulate=2"}), Step(2, 2));
  EXPECT_EQ(step({"data.batch_size=2"}), Step(2, 1));
  EXPECT_EQ(fitted("quickstart", dir / "data", {"optimizer.learning_rate = 0.5"}).optimizer().learning_rate(),
            0.5);
}

// From trained weights: what 6 published recipes become with few and with many images; the messages stay.
TEST(Recipes, BecomeThoseOfFineTuning) {
  const auto tuned = [](const std::string& name, int64_t images, const std::vector<std::string>& sets = {},
                        const QuickFlags& quick = {}) {
    Config config = parse_config(find_recipe(name, "test").text, "test");
    for (const std::string& set : sets) apply_set(config, set);
    const Config result = fine_tuned(config, {.classes = 3, .images = images}, sets, quick);
    validate_config(result);
    return result;
  };
  for (const char* name :
       {"dfine_n", "dfine_s", "deim_dfine_s", "rf_detr_n", "rf_detr_seg_n", "lw_detr_t", "rt_detr_r18"}) {
    SCOPED_TRACE(name);
    const Config official = resolve_config(parse_config(find_recipe(name, "test").text, "test"));
    const double rate_of_image =
        official.optimizer().learning_rate() / (official.data().batch_size() * official.train().accumulate());
    for (const int64_t images : {20, 200, 2000}) {
      const Config c = tuned(name, images);
      const int64_t step = int64_t{c.data().batch_size()} * c.train().accumulate();
      EXPECT_LE(step, std::min<int64_t>(16, std::max<int64_t>(images / 5, 1)));
      EXPECT_NEAR(c.optimizer().learning_rate(), rate_of_image * static_cast<double>(step), 1e-9);
      const double steps = c.train().epochs() * static_cast<double>(images) / static_cast<double>(step),
                   average = std::max(100.0, steps / 50);
      EXPECT_LE(c.train().ema_decay(), 1 - 1 / average + 1e-12);
      EXPECT_LE(c.train().ema_tau(), average);
      EXPECT_LE(c.schedule().warmup_steps(), std::min(500.0, steps / 20));
      EXPECT_GE(c.schedule().warmup_steps(), std::min(100, static_cast<int>(steps / 20)));
      EXPECT_NE(c.schedule().type(), "constant");
      EXPECT_EQ(c.data().augment().mosaic() > 0 || c.data().augment().batch_mixup() > 0,
                images > 1000 &&
                    (official.data().augment().mosaic() > 0 || official.data().augment().batch_mixup() > 0));
      if (official.data().augment().strong_stop_epoch() > 0) {
        EXPECT_EQ(c.data().augment().strong_stop_epoch(), std::ceil(0.9 * c.train().epochs()));
      }
    }
  }
  const std::vector<std::string> sets{"train.ema_decay=0.5", "schedule.warmup_steps=7",
                                      "schedule.type=constant", "data.batch_size=3",
                                      "data.augment.mosaic=0.25"};
  const Config c = tuned("deim_dfine_s", 200, sets);
  EXPECT_EQ(c.train().ema_decay(), 0.5);
  EXPECT_EQ(c.schedule().warmup_steps(), 7);
  EXPECT_EQ(c.schedule().type(), "constant");
  EXPECT_EQ(c.data().batch_size(), 3);
  EXPECT_EQ(c.data().augment().mosaic(), 0.25);
  std::vector<std::string> said;
  const Config official = parse_config(find_recipe("rf_detr_n", "test").text, "test");
  for (const ConfigChange& change :
       config_changes(resolve_config(official), resolve_config(tuned("rf_detr_n", 198))))
    said.push_back(change.to_string());
  EXPECT_EQ(said, (std::vector<std::string>{
                      "schedule.type: \"constant\" -> \"flat_cosine\"", "schedule.warmup_steps: 0 -> 61",
                      "schedule.final_ratio: 0 -> 0.1", "schedule.flat_epochs: 0 -> 80",
                      "schedule.end_epochs: 0 -> 10", "train.ema_decay: 0.993 -> 0.99"}));
  for (const char* other : {"detr_r50", "retinanet_r50", "vit_s"}) {
    const Config recipe = parse_config(find_recipe(other, "test").text, "test");
    EXPECT_EQ(config_text(tuned(other, 200)), config_text(recipe)) << other;
  }
}

TEST(TrainModel, NeedsNoConfiguration) {
  TestFolder dir;
  const fs::path before = fs::current_path();
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "data", "--images", "9", "--seed", "1"}), 0);
  fs::current_path(dir.path());
  auto train = [](std::vector<std::string> more) {
    std::vector<std::string> words{"train", "--data", "data", "--model", "quickstart", "--max-steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    const int status = run_command(words);
    return std::pair(status, testing::internal::GetCapturedStdout());
  };
  auto [status, out] = train({});
  EXPECT_EQ(status, 0) << out;
  EXPECT_NE(out.find("run folder: runs/quickstart-1"), std::string::npos) << out;
  const Config recipe = parse_config(find_recipe("quickstart", "").text, "quickstart");
  const int batch = recipe.data().batch_size();
  for (const std::string& note :
       {fmt::format("data.batch_size: {} -> 1 (there are few images)", batch),
        fmt::format("train.accumulate: 1 -> {} (batches per step, for the recipe's images per step)", batch)})
    EXPECT_NE(out.find(note), std::string::npos) << note << "\n" << out;
  // A second run has a folder of its own; heads for other classes start anew, those for the same are kept.
  std::tie(status, out) = train({"--init-from", "runs/quickstart-1/checkpoints/last.safetensors"});
  EXPECT_EQ(status, 0) << out;
  EXPECT_TRUE(fs::exists("runs/quickstart-2/config.textproto"));
  EXPECT_EQ(out.find("re-initialised"), std::string::npos) << out;
  // The same command continues; another model does not.
  std::tie(status, out) = train({"--resume", "--output", "runs/quickstart-1"});
  EXPECT_EQ(status, 0) << out;
  EXPECT_EQ(run_command({"train", "--data", "data", "--model", "rt_detr_r18", "--resume", "--output",
                         "runs/quickstart-1"}),
            2);
  std::string annotations = read_bytes("data/annotations.json");
  annotations.replace(annotations.find("\"name\":"), 7, "\"name\": \"a\", \"was\":");
  write_bytes("data/annotations.json", annotations);
  std::tie(status, out) = train({"--init-from", "runs/quickstart-1/checkpoints/last.safetensors"});
  EXPECT_EQ(status, 0) << out;
  EXPECT_NE(out.find("class heads, re-initialised"), std::string::npos) << out;
  EXPECT_NE(out.find("their rows for classes with the same name in the file are copied: 5 of 6 (square, "),
            std::string::npos)
      << out;
  EXPECT_NE(run_command({"train", "--data", "data", "--model", "quickstart", "--resume", "--output", "x"}),
            0);
  fs::current_path(before);
}

// What was changed is said once for each field, with the value that the run has.
TEST(TrainModel, SaysEachChangeOnce) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "data", "--images", "16", "--seed", "1"}), 0);
  int runs = 0;
  const auto check = [&](std::vector<std::string> words, const std::vector<std::string>& parts) {
    const std::string run = dir / fmt::format("run{}", ++runs);
    words.insert(words.begin(), {"train", "--data", dir / "data", "--model", "quickstart", "--output", run,
                                 "--max-steps", "1"});
    testing::internal::CaptureStdout();
    const int status = run_command(words);
    const std::string out = testing::internal::GetCapturedStdout();
    ASSERT_EQ(status, 0) << out;
    for (const std::string& part : parts)
      EXPECT_NE(out.find("\n  " + part + "\n"), std::string::npos) << part;
    const Config recipe = resolve_config(parse_config(find_recipe("quickstart", "").text, "quickstart"));
    const Config own = load_config(run + "/config.textproto");
    for (const ConfigChange& change : config_changes(recipe, own)) {
      if (change.field == "precision") continue;
      if (change.field == "data.folder" || change.field == "data.train" || change.field == "data.val")
        continue;  // --data
      const size_t place = out.find("  " + change.field + ": ");
      EXPECT_NE(out.find("  " + change.to_string()), std::string::npos) << change.to_string() << "\n" << out;
      EXPECT_EQ(out.find("  " + change.field + ": ", place + 1), std::string::npos) << change.field << out;
    }
    EXPECT_EQ(out.find("is longer than the run"), std::string::npos) << out;
  };
  check({"--overfit", "4"},
        {"schedule.warmup_steps: 200 -> 50 (--overfit)", "train.ema_decay: 0.998 -> 0 (--overfit)"});
  check({"--overfit", "2", "--epochs", "10"},
        {"schedule.warmup_steps: 200 -> 2 (--overfit)", "train.epochs: 7 -> 10 (--epochs)"});
  check({"--init-from", dir / "run1/checkpoints/last.safetensors"},
        {"schedule.warmup_steps: 200 -> 2", "train.accumulate: 1 -> 2"});
}

// A small model learns one image by heart, which no augmentation flips.
TEST(Overfit, ApproachesAnApOfOne) {
  TestFolder dir;
  ASSERT_EQ(run_command(
                {"data", "shapes", "--output", dir / "data", "--images", "6", "--seed", "3", "--size", "64"}),
            0);
  write_bytes(dir / "config.textproto", R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 16 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer { hidden_dim: 64 heads: 4 encoder_layers: 1 decoder_layers: 2 ffn_dim: 64 queries: 12 levels: 2 dropout: 0
                extra_query_groups: 2 } deformable_detr { box_refine: true }
}
data { batch_size: 2 augment { height: 96 width: 96 mosaic: 1 batch_mixup: 1 hue: 0.5 } val_height: 64 val_width: 64 }
optimizer { learning_rate: 2e-3 clip_norm: 1 }
train { epochs: 3 }
)");
  testing::internal::CaptureStdout();
  const int status = run_command({"train", "--config", dir / "config.textproto", "--data", dir / "data",
                                  "--output", dir / "run", "--overfit", "1", "--set", "train.max_steps=250"});
  const std::string out = testing::internal::GetCapturedStdout();
  ASSERT_EQ(status, 0) << out;
  EXPECT_NE(out.find("the same 1 image, without augmentation"), std::string::npos) << out;
  EXPECT_NE(out.find("1 image, "), std::string::npos) << out;
  ASSERT_FALSE(logged_numbers(dir / "run", "AP").empty());
  EXPECT_GT(logged_numbers(dir / "run", "AP").back(), 0.9) << out;
}

// Trains on the first four noise images, two of each class.
TEST(Overfit, TeachesAClassifierToo) {
  TestFolder dir;
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("set/c{}/{}.png", i % 2, i / 2);
    fs::create_directories(fs::path(dir / name).parent_path());
    Image image(24, 24);
    Rng rng(static_cast<uint64_t>(i));
    for (uint8_t& v : image.rgb) v = static_cast<uint8_t>(rng.next());
    write_png(image, dir / name);
  }
  write_bytes(dir / "config.textproto", R"(
model { type: "classifier" backbone { blocks: [1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 } }
data { batch_size: 8 augment { height: 32 width: 32 crop_area_min: 0.1 } mix { mixup_alpha: 1 } val_height: 24 val_width: 24 }
optimizer { learning_rate: 1e-2 }
train { epochs: 3 }
)");
  testing::internal::CaptureStdout();
  const int status = run_command({"train", "--config", dir / "config.textproto", "--data", dir / "set",
                                  "--output", dir / "run", "--overfit", "4", "--set", "train.max_steps=60"});
  const std::string out = testing::internal::GetCapturedStdout();
  ASSERT_EQ(status, 0) << out;
  EXPECT_NE(out.find("the same 4 images, without augmentation; top1 should approach 1"), std::string::npos)
      << out;
  EXPECT_NE(out.find("4 images, 2 classes"), std::string::npos) << out;
  ASSERT_FALSE(logged_numbers(dir / "run", "top1").empty());
  EXPECT_EQ(logged_numbers(dir / "run", "top1").back(), 1) << out;
}

}  // namespace
}  // namespace saccade
