// Tests the messages about a newcomer's masks, weights and flags, with a small Mask R-CNN.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/formats/safetensors.h"
#include "data/images/image.h"
#include "models/build.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/options.h"
#include "train/config/recipes.h"

namespace saccade {
namespace {

struct Said {
  int status;
  std::string out, error;
  bool has(const std::string& text) const { return (out + error).find(text) != std::string::npos; }
};

Said said_by(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_command(words);
  const std::string error = testing::internal::GetCapturedStderr();
  return {status, testing::internal::GetCapturedStdout(), error};
}

constexpr const char* kFittingMask = R"(,"segmentation":[[4,5,34,5,34,25,4,25]])";
constexpr const char* kEmptyMask = R"(,"segmentation":{"size":[40,48],"counts":[1920]})";
constexpr const char* kMaskElsewhere = R"(,"segmentation":[[24,20,44,20,44,38,24,38]])";

// Writes three images of 48 x 40 pixels with one object each, of which some have masks.
void write_masked(const TestFolder& folder, const std::string& list,
                  const std::array<const char*, 3>& masks) {
  std::filesystem::create_directories(folder / "images");
  std::string images, annotations;
  for (int i = 1; i <= 3; ++i) {
    Image image(40, 48);
    for (size_t k = 0; k < image.rgb.size(); ++k) image.rgb[k] = static_cast<uint8_t>(k * 31 * i);
    write_png(image, folder / fmt::format("images/{}.png", i));
    images +=
        fmt::format(R"({}{{"id":{},"file_name":"{}.png","width":48,"height":40}})", i > 1 ? "," : "", i, i);
    annotations += fmt::format(
        R"({}{{"id":{},"image_id":{},"category_id":1,"bbox":[4,5,30,20],"area":600,"iscrowd":0{}}})",
        i > 1 ? "," : "", 10 * i, i, masks[static_cast<size_t>(i - 1)]);
  }
  write_bytes(folder / list,
              fmt::format(R"({{"images":[{}],"annotations":[{}],"categories":[{{"id":1,"name":"a"}}]}})",
                          images, annotations));
}

std::vector<std::string> train_masked(const TestFolder& folder, const std::string& list,
                                      const std::string& run, const std::string& type = "mask_rcnn") {
  const std::string split =
      fmt::format("{{ annotations: \"{}\" images: \"{}\" }}", folder / list, folder / "images");
  write_bytes(folder / "config.textproto", "data { train " + split + " val " + split + R"(
  batch_size: 1 augment { height: 64 width: 64 } val_height: 64 val_width: 64
}
model {
  type: ")" + type + R"("
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 }
  rcnn { channels: 16 head_dim: 16 anchor_scale: 4 train_candidates: 50 candidates: 50 proposals: 20 rpn_samples: 32 samples: 16 }
}
train { epochs: 0 max_steps: 1 log_every: 1 })");
  return {"train", "--config", folder / "config.textproto", "--output", folder / run};
}

TEST(MaskFaults, ObjectsWithoutAMaskTeachTheirBoxes) {
  TestFolder folder;
  write_masked(folder, "list.json", {kFittingMask, "", kFittingMask});
  const Said trained = said_by(train_masked(folder, "list.json", "run"));
  EXPECT_EQ(trained.status, 0);
  EXPECT_TRUE(
      trained.has("list.json: annotation 20 (image 2, 2.png) has no mask; from objects without one the model "
                  "learns only boxes and classes (saccade data check --masks --fix OUT"))
      << trained.out;
  EXPECT_TRUE(trained.has("metrics are for boxes only")) << trained.out;

  const std::vector<std::string> check{"data",     "check",           "--annotations", folder / "list.json",
                                       "--images", folder / "images", "--masks"};
  const Said checked = said_by(check);
  EXPECT_EQ(checked.status, 2);
  EXPECT_TRUE(checked.has("list.json: annotation 20 (image 2, 2.png): has no mask")) << checked.out;
  std::vector<std::string> fix = check;
  fix.insert(fix.end(), {"--fix", folder / "fixed.json"});
  const Said fixed = said_by(fix);
  EXPECT_EQ(fixed.status, 0);
  EXPECT_TRUE(fixed.has("1 object without a mask becomes a crowd")) << fixed.out;
  const Said again = said_by(train_masked(folder, "fixed.json", "again"));
  EXPECT_EQ(again.status, 0);
  EXPECT_TRUE(again.has("1 crowd without a mask, left out like all crowds")) << again.out;
  EXPECT_EQ(logged_numbers(folder / "again", "segm_AP").size(), 1U);

  write_masked(folder, "none.json", {"", "", ""});
  const Said none = said_by(train_masked(folder, "none.json", "none"));
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(none.has("none.json: annotation 10 (image 1, 1.png) has no mask, nor has any other object"))
      << none.error;
}

TEST(MaskFaults, EmptyMasksAreNoneAndOthersMayNotFit) {
  TestFolder folder;
  write_masked(folder, "list.json", {kFittingMask, kEmptyMask, kMaskElsewhere});
  const Said trained = said_by(train_masked(folder, "list.json", "run"));
  EXPECT_EQ(trained.status, 0);
  EXPECT_TRUE(trained.has("annotation 20 (image 2, 2.png) has no mask; from objects without one"))
      << trained.out;
  // The note comes in addition to those of all sets.
  EXPECT_TRUE(trained.has("note: " + (folder / "list.json") + ": 1 mask does not fit its box"))
      << trained.out;
  const Said checked = said_by(
      {"data", "check", "--annotations", folder / "list.json", "--images", folder / "images", "--masks"});
  EXPECT_EQ(checked.status, 2);
  EXPECT_TRUE(checked.has("annotation 20 (image 2, 2.png): has a mask without pixels")) << checked.out;
  EXPECT_TRUE(checked.has("1 mask does not fit its box")) << checked.out;
  EXPECT_TRUE(checked.has("for example that of annotation 30")) << checked.out;
}

// An object without a mask leaves pixels whose class is not known.
TEST(MaskFaults, LabelMapsOfObjectsWithoutAMask) {
  TestFolder folder;
  write_masked(folder, "list.json", {kFittingMask, "", kFittingMask});
  const auto convert = [&](const std::string& list, const std::string& to) {
    return said_by(
        {"data", "convert", folder / list, folder / to, "--images", folder / "images", "--to", "label_maps"});
  };
  const Said converted = convert("list.json", "maps");
  ASSERT_EQ(converted.status, 0) << converted.error;
  EXPECT_TRUE(converted.has("1 of 3 objects has no mask, for example annotation 20")) << converted.out;
  const Said checked = said_by({"data", "check", "--data", folder / "maps"});
  EXPECT_TRUE(checked.has("5760 pixels, 600 of them without a class")) << checked.out << checked.error;
  write_masked(folder, "none.json", {"", "", ""});
  EXPECT_TRUE(convert("none.json", "none")
                  .has("annotation 10 (image 1): has no segmentation, nor has any other object"));
}

TEST(MaskFaults, FlagsAndFigures) {
  TestFolder folder;
  write_masked(folder, "list.json", {kFittingMask, kFittingMask, kFittingMask});
  ASSERT_EQ(said_by(train_masked(folder, "list.json", "run")).status, 0);
  const std::string checkpoint = folder / "run/checkpoints/last.safetensors";

  // score gives the metrics of eval.
  const Said judged = said_by({"eval", "--checkpoint", checkpoint, "--annotations", folder / "list.json",
                               "--images", folder / "images", "--detections", folder / "found.json", "--json",
                               folder / "eval.json", "--set", "model.rcnn.score_threshold=0"});
  ASSERT_EQ(judged.status, 0) << judged.error;
  const Said scored = said_by({"score", "--checkpoint", checkpoint, "--annotations", folder / "list.json",
                               "--detections", folder / "found.json", "--json", folder / "score.json"});
  ASSERT_EQ(scored.status, 0) << scored.error;
  EXPECT_EQ(read_bytes(folder / "score.json"), read_bytes(folder / "eval.json"));
  EXPECT_NE(read_bytes(folder / "score.json").find("segm_AP"), std::string::npos);

  // The message says why nothing is found.
  const std::string none = "model.rcnn.score_threshold=0.999";
  EXPECT_TRUE(
      said_by({"eval", "--checkpoint", checkpoint, "--annotations", folder / "list.json", "--images",
               folder / "images", "--set", none})
          .has("nothing was found in any image: no score exceeds model.rcnn.score_threshold (0.999)"));
  const auto predict = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> words{"predict",  "--checkpoint", checkpoint,
                                   "--output", folder / "out", folder / "images"};
    words.insert(words.end(), more.begin(), more.end());
    return said_by(words);
  };
  EXPECT_TRUE(predict({"--set", none}).has("the model itself drops scores up to 0.999"));
  EXPECT_TRUE(predict({"--set", none, "--threshold", "0.9995"})
                  .has("no score exceeds model.rcnn.score_threshold (0.999)"));
  EXPECT_TRUE(predict({"--threshold", "0.01"}).has("the model itself drops scores up to 0.05"));

  // A field of another task is set.
  EXPECT_TRUE(
      predict({"--set", "eval.window=32"}).has("note: eval.window: 32 does nothing outside of segmentation"));
  EXPECT_FALSE(predict({"--set", "eval.nms=0.5"}).has("does nothing"));

  // Crops of objects that are no longer found are removed; others' files stay.
  const auto crops = [&] {
    return std::distance(std::filesystem::directory_iterator(folder / "out/crops"),
                         std::filesystem::directory_iterator());
  };
  const std::string all = "model.rcnn.score_threshold=0";
  EXPECT_FALSE(predict({"--set", all, "--threshold", "0", "--crop"}).has("removed"));
  ASSERT_GT(crops(), 6);
  write_bytes(folder / "out/crops/1_2.png", "mine");
  const auto before = crops();
  const Said fewer = predict({"--set", all, "--threshold", "0", "--crop", "--max", "1"});
  EXPECT_TRUE(fewer.has(fmt::format("removed {} crops of an earlier run", before - 4))) << fewer.out;
  EXPECT_EQ(crops(), 4);
  EXPECT_EQ(read_bytes(folder / "out/crops/1_2.png"), "mine");

  // A label map next to its image is no image.
  std::filesystem::copy(folder / "images/1.png", folder / "images/1_mask.png");
  const Said beside = predict({"--no-pictures"});
  EXPECT_TRUE(beside.has("left out: 1 label map next to its image (IMAGE_mask.png)")) << beside.out;
  EXPECT_TRUE(beside.has("3 images")) << beside.out;

  const Said exported = said_by({"export", checkpoint, folder / "x.onnx", "--postprocess", "--raw-outputs"});
  EXPECT_EQ(exported.status, 2);
  EXPECT_TRUE(exported.has("there are no raw outputs") || exported.has("built without ONNX"))
      << exported.error;
}

// The tensors of these files fit, but mean something else.
TEST(MaskFaults, WeightsOfOtherModels) {
  TestFolder folder;
  write_masked(folder, "list.json", {kFittingMask, kFittingMask, kFittingMask});
  const std::string weights = SACCADE_SOURCE_DIR "/tests/golden/mask_rcnn/weights.pth",
                    own = folder / "own.safetensors";
  ASSERT_EQ(said_by({"convert", weights, own}).status, 0);
  const auto started_from = [&](const std::string& file, const std::string& type) {
    std::vector<std::string> words = train_masked(folder, "list.json", "run", type);
    words.insert(words.end(), {"--init-from", file});
    return said_by(words);
  };
  for (const char* type : {"mask_rcnn", "faster_rcnn"})
    for (const std::string& file : {weights, own}) {
      const Said said = started_from(file, type);
      EXPECT_EQ(said.status, 2);
      EXPECT_TRUE(
          said.has("but model.rcnn.conventions is mmdetection, expected --set "
                   "model.rcnn.conventions=torchvision"))
          << type << said.error;
    }

  const std::pair<const char*, std::vector<const char*>> versions[] = {
      {"torchvision's second version",
       {"roi_heads.box_predictor.cls_score.weight", "backbone.fpn.inner_blocks.0.1.weight"}},
      {"the names of detectron2",
       {"roi_heads.box_predictor.cls_score.weight", "proposal_generator.rpn_head.conv.weight"}},
      {"group norms",
       {"head.classification_head.cls_logits.weight", "head.classification_head.conv.0.1.weight"}}};
  for (const auto& [what, names] : versions) {
    NamedValues tensors;
    for (const char* name : names) tensors.emplace_back(name, Tensor::zeros({4}));
    write_safetensors(folder / "v2.safetensors", tensors, {});
    for (const Said& said : {started_from(folder / "v2.safetensors", "mask_rcnn"),
                             said_by({"convert", folder / "v2.safetensors", folder / "x.safetensors"})}) {
      EXPECT_EQ(said.status, 2);
      EXPECT_TRUE(said.has(what)) << said.error;
    }
  }
}

// The file lacks a tensor by which its model is recognised.
TEST(MaskFaults, AModelThatLacksATensorIsNamed) {
  TestFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"mask_rcnn_r50", "rpn_head.rpn_cls.weight"},
      {"mask_rcnn_r50", "roi_head.mask_head.conv_logits.weight"},
      {"retinanet_r50", "bbox_head.retina_cls.weight"}};
  for (const auto& [recipe, lacks] : cases) {
    const Config config = resolve_config(parse_config(find_recipe(recipe, "--model").text, recipe));
    NamedValues tensors;
    for (const NamedTensor& t : sketch_model(build_args(config), 3)->named_tensors())
      if (t.name != lacks) tensors.emplace_back(t.name, Tensor::zeros({1}));
    write_safetensors(folder / "x.safetensors", tensors, {});
    const Said said = said_by({"convert", folder / "x.safetensors", folder / "y.safetensors"});
    EXPECT_EQ(said.status, 2);
    EXPECT_TRUE(said.has(fmt::format("but it lacks 1 of {} tensors ({})", tensors.size() + 1, lacks)))
        << said.error;
    EXPECT_TRUE(
        said.has(std::string("nearly a model like that of --model ") + std::string(recipe).substr(0, 9)))
        << said.error;
  }
}

// A file that lacks nothing is not said to be nearly a model with more tensors.
TEST(MaskFaults, AModelThatFitsNowhereIsNamed) {
  TestFolder folder;
  write_masked(folder, "list.json", {kFittingMask, kFittingMask, kFittingMask});
  const Config config = resolve_config(parse_config(find_recipe("faster_rcnn_r50", "--model").text, "it"));
  NamedValues tensors;
  for (const NamedTensor& t : sketch_model(build_args(config), 3)->named_tensors())
    tensors.emplace_back(t.name, Tensor::zeros({1}));
  write_safetensors(folder / "x.safetensors", tensors, {});
  std::vector<std::string> words = train_masked(folder, "list.json", "run");
  words.insert(words.end(), {"--init-from", folder / "x.safetensors"});
  const Said said = said_by(words);
  EXPECT_EQ(said.status, 2);
  EXPECT_TRUE(said.has("the file is a model like that of --model faster_rcnn_r50")) << said.error;
}

}  // namespace
}  // namespace saccade
