// A checkpoint may come from anywhere, so its tensors are checked like its configuration and classes
// (bad_inputs/weights.table).
#include <gtest/gtest.h>

#include <cmath>

#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/load_model.h"
#include "train/config/task.h"

namespace saccade {
namespace {

const char* kDetector =
    "model { backbone { blocks: [1, 1] width: 4 outputs: [2] frozen_stages: 0 } transformer { hidden_dim: 8 heads: 2 "
    "encoder_layers: 1 decoder_layers: 1 ffn_dim: 8 queries: 2 levels: 1 } }";
const char* kSwinClassifier =
    "model { type: \"classifier\" backbone { blocks: [1, 1] width: 4 frozen_stages: 0 } } "
    "data { augment { height: 32 width: 32 } val_height: 32 val_width: 32 }";

CheckpointInfo info_of(const Config& config) {
  CheckpointInfo info;
  info.config = config_text(config);
  info.class_names = {"circle", "square", "star"};
  if (config.model().type() != "classifier") info.category_ids = {1, 2, 3};
  return info;
}

TEST(Convert, TakesTheWeightsOfAClassifierWithItsConfiguration) {
  TestFolder folder;
  const auto model = build_model(parse_config(kSwinClassifier, "base"), 3);
  model->initialize(1);
  NamedValues tensors;
  for (const NamedTensor& t : model->named_tensors()) tensors.emplace_back(t.name, t.var.value());
  write_safetensors(folder / "plain.safetensors", tensors, {});
  write_bytes(folder / "c.textproto", kSwinClassifier);
  ASSERT_EQ(run_command({"convert", "--config", folder / "c.textproto", "--set", "model.num_classes=3",
                         folder / "plain.safetensors", folder / "out.safetensors"}),
            0);
  const LoadedModel loaded = load_trained_model(folder / "out.safetensors");
  EXPECT_EQ(task_name(loaded.config), "classification");
  EXPECT_EQ(loaded.class_names.size(), 3u);
  EXPECT_TRUE(loaded.category_ids.empty());
}

TEST(HostileCheckpoint, NumbersThatAreNotFiniteAreNamed) {
  TestFolder folder;
  const Config config = parse_config(kDetector, "base");
  const auto model = build_model(config, 3);
  model->initialize(1);
  model->parameters().front().var.value().fill(std::nan(""));
  const std::string path = folder / "x.safetensors";
  save_checkpoint(path, *model, info_of(config));
  EXPECT_EQ(
      input_error([&] { load_trained_model(path); }),
      path + ": its tensor \"" + model->parameters().front().name + "\" holds numbers that are not finite");
}

}  // namespace
}  // namespace saccade
