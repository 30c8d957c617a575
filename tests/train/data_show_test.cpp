// Tests that saccade data show draws what training gets.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/images/draw.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/config/task.h"
#include "train/loop/training_task.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShownConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data {
  train { annotations: "DIR/annotations.json" images: "DIR/images" }
  batch_size: 2
  workers: 2
  augment { height: 64 width: 64 crop_probability: 0 mosaic: 0.5 iou_crop: 0.5 zoom_out: 0.3 batch_mixup: 0.5
            photometric_distortion: 0.5 multi_scale_heights: [64, 96] }
}
train { max_steps: 2 accumulate: 2 }
)";

std::string config_with(const std::string& folder) {
  std::string text = kShownConfig;
  for (size_t at; (at = text.find("DIR")) != std::string::npos;) text.replace(at, 3, folder);
  return text;
}

TEST(DataShow, PicturesAreTheBatchesOfAStepWithTheirBoxes) {
  TestFolder dir;
  ASSERT_EQ(run_command(
                {"data", "shapes", "--output", dir / "set", "--images", "10", "--seed", "1", "--size", "80"}),
            0);
  write_bytes(dir / "c.textproto", config_with(dir / "set"));
  ASSERT_EQ(run_command({"data", "show", "--config", dir / "c.textproto", "--output", dir / "seen",
                         "--batches", "4", "--step", "2"}),
            0);
  const Config config = resolve_config(load_config(dir / "c.textproto"));
  const std::unique_ptr<TrainingTask> task = task_of(config).training(config);
  const std::function<Batch()> next = task->open_batches(0, 2);  // the third batch is the first of step 2
  for (int64_t k = 0; k < 4; ++k) {
    const Batch batch = next();
    for (size_t n = 0; n < batch.targets.size(); ++n) {
      const Target& target = batch.targets[n];
      Image image(batch.images.dim(1), batch.images.dim(2));
      const Tensor pixels = batch.images.select(0, static_cast<int64_t>(n));
      std::copy_n(pixels.data<uint8_t>(), image.rgb.size(), image.rgb.begin());
      std::vector<Instance> boxes = target.instances;
      for (Instance& i : boxes) {
        i.box = scaled(i.box, static_cast<double>(target.width) / static_cast<double>(target.frame.width),
                       static_cast<double>(target.height) / static_cast<double>(target.frame.height));
        i.score = -1;
      }
      draw_boxes(image, boxes, task->class_names());
      const std::string name =
          fmt::format("seen/step{:06}_{:02}.png", 2 + k / 2, 2 * (k % 2) + static_cast<int64_t>(n));
      EXPECT_EQ(read_image(dir / name), image) << name;
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "seen"), fs::directory_iterator()), 8);

  ASSERT_EQ(run_command({"data", "show", "--config", dir / "c.textproto", "--output", dir / "again",
                         "--images", "3", "--step", "2"}),
            0);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "again"), fs::directory_iterator()), 3);
  ASSERT_EQ(run_command({"data", "show", "--data", dir / "set", "--model", "quickstart", "--output",
                         dir / "recipe", "--images", "1"}),
            0);
  EXPECT_TRUE(fs::exists(dir / "recipe/step000001_00.png"));
  for (const char* name : {"step000002_00.png", "step000002_01.png", "step000002_02.png"})
    EXPECT_EQ(read_bytes(dir / (std::string("again/") + name)),
              read_bytes(dir / (std::string("seen/") + name)));
}

TEST(DataShow, ClassesOfMixedImagesAreNamed) {
  TestFolder dir;
  for (const char* name : {"cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"}) {
    fs::create_directories(fs::path(dir / name).parent_path());
    write_png(Image(48, 48), dir / name);
  }
  write_bytes(dir / "c.textproto", R"(
model { type: "classifier" backbone { type: "vit" arg { key: "depth" int: 1 } arg { key: "dim" int: 24 } arg { key: "image_size" int: 48 } } }
data { batch_size: 4 workers: 0 augment { height: 48 width: 48 crop_probability: 0 } val_height: 48 val_width: 48
       val_fraction: 0 mix { mixup_alpha: 1 } }
train { max_steps: 1 })");
  ASSERT_EQ(run_command({"data", "show", "--config", dir / "c.textproto", "--data", dir.path(), "--output",
                         dir / "seen"}),
            0);
  EXPECT_NE(read_image(dir / "seen/step000001_00.png"), Image(48, 48));
}

TEST(DataShow, RefusesWhatDoesNotGoTogether) {
  const std::string error =
      input_error([] { run_data_show({.config = "c", .output = "o", .batches = 1, .images = 1}); });
  EXPECT_EQ(error, "--images and --batches cannot be combined");
}

}  // namespace
}  // namespace saccade
