// Tests R-CNNs on lists that say little, or something different, about their images and classes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/images/image.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

// Writes four images of 48 x 40 pixels with one object each. `size`: what the list says about them; `first`:
// the first of the two categories.
void write_squares(const TestFolder& folder, const std::string& list, const std::string& size, int first) {
  std::string images, annotations;
  for (int i = 1; i <= 4; ++i) {
    Image image(40, 48);
    for (size_t k = 0; k < image.rgb.size(); ++k) image.rgb[k] = static_cast<uint8_t>(k * 37 * i);
    write_png(image, folder / fmt::format("{}.png", i));
    images += fmt::format(R"({}{{"id":{},"file_name":"{}.png"{}}})", i > 1 ? "," : "", i, i, size);
    annotations +=
        fmt::format(R"({}{{"id":{},"image_id":{},"category_id":{},"bbox":[4,5,30,20],"area":600,"iscrowd":0,)"
                    R"("segmentation":[[4,5,34,5,34,25,4,25]]}})",
                    i > 1 ? "," : "", i, i, first + i % 2);
  }
  write_bytes(folder / list,
              fmt::format(R"({{"images":[{}],"annotations":[{}],"categories":[{{"id":{},"name":"a"}},)"
                          R"({{"id":{},"name":"b"}}]}})",
                          images, annotations, first, first + 1));
}

std::vector<std::string> train_squares(const TestFolder& folder, const std::string& list,
                                       const std::string& run) {
  const std::string split =
      fmt::format("{{ annotations: \"{}\" images: \"{}\" }}", folder / list, folder.path());
  write_bytes(folder / "config.textproto", "data { train " + split + " val " + split + R"(
  batch_size: 2 augment { height: 64 width: 64 } val_height: 64 val_width: 64
}
model {
  type: "mask_rcnn"
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 }
  rcnn {
    channels: 16 head_dim: 16 mask_channels: 8 mask_layers: 1 anchor_scale: 4 train_candidates: 50 candidates: 50
    proposals: 20 rpn_samples: 32 samples: 16
  }
}
train { epochs: 0 max_steps: 1 log_every: 1 })");
  return {"train", "--config", folder / "config.textproto", "--output", folder / run};
}

// Masks are compared at the size of the files.
TEST(RcnnData, ListsMaySayOtherSizesOrNone) {
  TestFolder folder;
  const std::pair<const char*, const char*> sizes[] = {
      {"right", R"(,"width":48,"height":40)"}, {"none", ""}, {"other", R"(,"width":40,"height":48)"}};
  std::string expected;
  for (const auto& [name, size] : sizes) {
    SCOPED_TRACE(name);
    write_squares(folder, "list.json", size, 1);
    ASSERT_EQ(run_command(train_squares(folder, "list.json", name)), 0);
    EXPECT_EQ(logged_numbers(folder / name, "segm_AP").size(), 1U);
    const std::string figures = folder / (std::string(name) + ".json");
    ASSERT_EQ(
        run_command({"eval", "--checkpoint", folder / "right/checkpoints/last.safetensors", "--annotations",
                     folder / "list.json", "--images", folder.path(), "--iou", "segm", "--json", figures}),
        0);
    if (expected.empty()) expected = read_bytes(figures);
    EXPECT_EQ(read_bytes(figures), expected);
  }
}

// Training leaves crowds out; evaluation ignores what is in their masks or, without a mask, in their boxes.
TEST(RcnnData, CrowdsNeedNoMask) {
  TestFolder folder;
  write_squares(folder, "list.json", R"(,"width":48,"height":40)", 1);
  std::string list = read_bytes(folder / "list.json");
  list.insert(list.find(R"(],"categories")"),
              R"(,{"id":9,"image_id":1,"category_id":1,"bbox":[1,1,10,10],"area":100,"iscrowd":1})");
  write_bytes(folder / "list.json", list);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const int status = run_command(train_squares(folder, "list.json", "run"));
  const std::string said = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  ASSERT_EQ(status, 0) << said;
  for (const char* what : {"left out like all crowds", "detections in the box are ignored"})
    EXPECT_NE(said.find(what), std::string::npos) << said;
  EXPECT_EQ(logged_numbers(folder / "run", "segm_AP").size(), 1U);
}

// torchvision's weights mean something else in a model that computes like mmdetection's.
TEST(RcnnData, WeightsOfOtherConventionsAreRefused) {
  TestFolder folder;
  write_squares(folder, "list.json", R"(,"width":48,"height":40)", 1);
  std::vector<std::string> words = train_squares(folder, "list.json", "run");
  words.insert(words.end(), {"--init-from", SACCADE_SOURCE_DIR "/tests/golden/mask_rcnn/weights.pth"});
  const std::string expected =
      "weights.pth: weights of a torchvision R-CNN, but model.rcnn.conventions is mmdetection, "
      "expected --set model.rcnn.conventions=torchvision";
  for (const bool set : {false, true}) {
    if (set)
      words.insert(words.end(),
                   {"--set", "model.rcnn.conventions=torchvision", "--set", "data.labels=category_id"});
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_command(words), 2);  // with them, the sizes of the layers do not fit
    const std::string error = testing::internal::GetCapturedStderr();
    EXPECT_EQ(error.find(expected) != std::string::npos, !set) << error;
  }
}

// With torchvision's conventions label 0 is the background.
TEST(RcnnData, ObjectsThatCannotBeFoundAreRefused) {
  TestFolder folder;
  write_squares(folder, "list.json", R"(,"width":48,"height":40)", 1);
  std::vector<std::string> words = train_squares(folder, "list.json", "run");
  words.insert(words.end(), {"--set", "model.rcnn.conventions=torchvision"});
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_command(words), 2);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_NE(error.find("list.json: annotation 2 (image 2): its category \"a\" has the label 0, which is the "
                       "background in this model"),
            std::string::npos)
      << error;
  words.insert(words.end(), {"--set", "data.labels=category_id"});
  ASSERT_EQ(run_command(words), 0);
  for (const double loss : losses_of(folder / "run")) EXPECT_LT(loss, 100);

  // Weights do not get such classes either.
  for (const int first : {0, 1}) {
    write_squares(folder, "list.json", "", first);
    EXPECT_EQ(run_command({"convert", SACCADE_SOURCE_DIR "/tests/golden/mask_rcnn/weights.pth",
                           folder / "x.safetensors", "--annotations", folder / "list.json"}),
              first == 0 ? 2 : 0);
  }
}

}  // namespace
}  // namespace saccade
