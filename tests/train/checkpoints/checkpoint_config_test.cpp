// A checkpoint is a file from somewhere: its configuration, classes and tensors are checked before a model is built of them.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>

#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/load_model.h"

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

// What loading says of a checkpoint of this model whose metadata were changed.
std::string load_error(const char* text, const std::function<void(CheckpointInfo&)>& change) {
  TestFolder folder;
  const Config config = parse_config(text, "base");
  const auto model = build_model(config, 3);
  model->initialize(1);
  CheckpointInfo info = info_of(config);
  change(info);
  const std::string path = folder / "x.safetensors";
  save_checkpoint(path, *model, info);
  const auto begin = std::chrono::steady_clock::now();
  std::string message = input_error([&] { load_trained_model(path); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 700u);
  EXPECT_TRUE(message == "no error" || message.starts_with(path + ": ")) << message;
  return message == "no error" ? message : message.substr(std::min(message.size(), path.size() + 2));
}

TEST(HostileCheckpoint, ItsConfigurationIsCheckedAsAUsersIs) {
  struct Case {
    const char *set, *part;
  };
  const Case kCases[] = {
      {"data.pad_multiple=0", "its configuration: data.pad_multiple: 0 is out of range, expected 1 to 4096"},
      {"data.pad_multiple=2147483647", "data.pad_multiple: 2147483647"},
      {"data.val_height=-1", "data.val_height: -1 is out of range"},
      {"data.val_height=1000000", "data.val_height: 1000000 is out of range"},
      {"data.val_width=1000000", "data.val_width: 1000000 is out of range"},
      {"data.val_width=64", "expected both to be set"},
      {"data.val_short_side=0", "data.val_short_side: 0"},
      {"data.mean=nan,0,0", "data.mean.0: nan is out of range"},
      {"data.std=0,0,0", "data.std.0: 0 is out of range"},
      {"eval.max_detections=0", "eval.max_detections: 0"},
      {"eval.evaluator=nothing", "eval.evaluator: "},
      {"optimizer.group={regex: \"(\"}", "is not a regular expression"},
      {"model.type=nothing", "model.type: \"nothing\" is not known, expected one of "},
      {"model.type=detr", ""},
      {"model.backbone.type=vit", ""},
      {"model.backbone.blocks=2147483647",
       "model.backbone.blocks.0: 2147483647 is out of range, expected 1 to 1024"},
      {"model.backbone.blocks=1,1000", "checkpoint of another model: it has no tensor"},
      {"model.backbone.width=4096", "checkpoint of another model: tensor"},
      {"model.transformer.hidden_dim=-1",
       "its configuration: model.transformer.hidden_dim: -1 is out of range"},
      {"model.transformer.hidden_dim=8192", "checkpoint of another model: tensor"},
      {"model.transformer.heads=0", "model.transformer.heads: 0 is out of range"},
      {"model.transformer.heads=3", "model.transformer.hidden_dim: 8 must be a multiple of 4 and of heads"},
      {"model.transformer.queries=10000", "checkpoint of another model: tensor"},
      {"model.num_classes=1000000", "checkpoint of another model: tensor"},
      {"model.num_classes=2147483647", "model.num_classes: 2147483647 is out of range"},
      {"model.num_classes=2", "model.num_classes: 2 for 3 class names, expected at least as many"},
      {"model.transformer.encoder_attention.type=window", "checkpoint of another model: "},
      {"seed=7", "no error"},
      {"data.val_height=64 val_width=64", "does not fit"}};
  for (const Case& c : kCases) {
    std::string not_set;
    const std::string message = load_error(kDetector, [&](CheckpointInfo& info) {
      Config config = parse_config(info.config, "base");
      not_set = input_error([&] { apply_set(config, c.set); });
      info.config = config_text(config);
    });
    EXPECT_NE((not_set == "no error" ? message : not_set).find(c.part), std::string::npos)
        << c.set << ": " << message;
  }
}

TEST(HostileCheckpoint, BrokenTextsNameTheFile) {
  for (const std::string& text : {std::string(300000, 'x') + ": 1", "model { " + std::string(300000, '{'),
                                  std::string("model"), std::string("\0\1\2", 3), std::string(100000, '[')}) {
    const std::string message = load_error(kDetector, [&](CheckpointInfo& info) { info.config = text; });
    EXPECT_TRUE(message.starts_with("its configuration:")) << message;
  }
}

TEST(HostileCheckpoint, ClassesMatchTheTaskAndTheModel) {
  auto with = [](const char* model, std::vector<std::string> names, std::vector<int64_t> ids) {
    return load_error(model, [&](CheckpointInfo& info) {
      info.class_names = std::move(names);
      info.category_ids = std::move(ids);
    });
  };
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(with(kDetector, names, {1, 2, 3}), "no error");
  EXPECT_EQ(with(kDetector, names, {}),
            "damaged checkpoint: 3 class names and 0 category ids, expected one of each for every class");
  EXPECT_NE(with(kDetector, names, {1}).find("damaged checkpoint: "), std::string::npos);
  EXPECT_NE(with(kDetector, {}, {}).find("damaged checkpoint: 0 class names"), std::string::npos);
  EXPECT_NE(with(kDetector, {}, {1, 2}).find("damaged checkpoint: "), std::string::npos);
  EXPECT_NE(with(kDetector, {"a"}, {1}).find("checkpoint of another model"), std::string::npos);
  EXPECT_EQ(with(kSwinClassifier, names, {}), "no error");
  EXPECT_EQ(with(kSwinClassifier, names, {1, 2, 3}),
            "damaged checkpoint: 3 class names and 3 category ids, expected names alone");
  EXPECT_NE(with(kSwinClassifier, {}, {}).find("damaged checkpoint: 0 class names"), std::string::npos);
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
  EXPECT_EQ(loaded.task, "classification");
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
