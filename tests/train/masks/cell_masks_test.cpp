// Tests masks from the data file to predictions, through the detector of cell_masks.cpp.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <regex>

#include <saccade/saccade.h>
#include "core/types/mask.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/library/saccade.hpp"

namespace saccade {
namespace {

// Metrics of boxes and of masks.
struct BothMetrics {
  double AP = -2, segm_AP = -2, segm_AR_100 = -2;  // -2: there are none
  explicit BothMetrics(const std::string& text) {
    auto find = [&](const std::string& name, double& value) {
      std::smatch match;
      if (std::regex_search(text, match, std::regex("\"" + name + R"(": ?([0-9.eE+-]+))")))
        value = std::stod(match[1]);
    };
    find("AP", AP), find("segm_AP", segm_AP), find("segm_AR_100", segm_AR_100);
  }
};

// An entry of the list that predict writes.
struct PredictedMasks {
  Mask mask;
  std::string crop;
};

std::vector<PredictedMasks> predicted_in(const std::string& list) {
  std::vector<PredictedMasks> found;
  simdjson::dom::parser parser;
  simdjson::dom::array entries;
  const simdjson::padded_string text(list);
  EXPECT_EQ(parser.parse(text).get(entries), simdjson::SUCCESS);
  for (simdjson::dom::element entry : entries) {
    const simdjson::dom::element segmentation = entry["segmentation"];
    const ImageSize size{segmentation["size"].at(0).get_int64(), segmentation["size"].at(1).get_int64()};
    found.push_back({Mask::from_text(size, std::string_view(segmentation["counts"])),
                     std::string(std::string_view(entry["crop"]))});
  }
  return found;
}

// libsaccade gives the same masks, in C++ and in C.
void expect_masks_of_library(const std::string& checkpoint, const std::string& images,
                             const std::vector<PredictedMasks>& expected) {
  const Model model(checkpoint, "cpu");
  saccade_model* c_model = nullptr;
  ASSERT_EQ(saccade_model_load(checkpoint.c_str(), "cpu", &c_model), SACCADE_OK) << saccade_last_error();
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(images)) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  size_t compared = 0;
  for (const auto& file : files) {
    saccade_result* result = nullptr;
    ASSERT_EQ(saccade_predict_file(c_model, file.c_str(), 0.02, &result), SACCADE_OK) << saccade_last_error();
    const std::vector<MaskedPrediction> found = model.predict_masks_of_file(file, 0.02);
    EXPECT_EQ(saccade_result_count(result, 0), found.size());
    for (size_t i = 0; i < found.size(); ++i, ++compared) {
      const PixelMask& mask = found[i].mask;
      ASSERT_LT(compared, expected.size());
      EXPECT_EQ(mask.counts, expected[compared].mask.counts()) << file << " " << i;
      std::vector<uint8_t> pixels = mask.pixels(), of_c(pixels.size());
      EXPECT_EQ(std::ssize(pixels), mask.width * mask.height);
      EXPECT_EQ(std::count(pixels.begin(), pixels.end(), 255), expected[compared].mask.area());
      EXPECT_EQ(saccade_result_has_mask(result, 0, i), 1);
      EXPECT_EQ(saccade_result_mask(result, 0, i, of_c.data(), of_c.size()), SACCADE_OK);
      EXPECT_EQ(of_c, pixels);
      EXPECT_EQ(saccade_result_mask(result, 0, i, of_c.data(), of_c.size() - 1), SACCADE_BAD_INPUT);
    }
    EXPECT_EQ(saccade_result_has_mask(result, 0, found.size()), 0);
    uint8_t none = 0;
    EXPECT_EQ(saccade_result_mask(result, 0, found.size(), &none, 1), SACCADE_BAD_INPUT);
    saccade_result_free(result);
  }
  EXPECT_EQ(compared, expected.size());
  saccade_model_free(c_model);
}

TEST(Masks, AreLearnedAndPredicted) {
  TestFolder folder;
  const std::string data = folder / "data", annotations = data + "/annotations.json",
                    images = data + "/images", output = folder / "run";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
  const std::string split = "{ annotations: \"" + annotations + "\" images: \"" + images + "\" }";
  std::ofstream(folder / "config.textproto") << R"(
model {
  type: "cell_masks"
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [2, 4] }
  transformer { hidden_dim: 32 }
}
data {
  train )" << split << " val " << split << R"(
  batch_size: 4
  augment { height: 96 width: 96 horizontal_flip: 0.5 scale_min: 0.8 scale_max: 1.2 }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 2e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 60 log_every: 1 eval_every_epochs: 0 }
)";
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output}), 0);
  for (const char* part : {"loss_mask", "loss_dice"}) {
    const std::vector<double> losses = logged_numbers(output, part);
    ASSERT_EQ(losses.size(), 60U) << part;
    EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.0),
              0.8 * std::accumulate(losses.begin(), losses.begin() + 10, 0.0))
        << part;
  }
  const std::string checkpoint = output + "/checkpoints/last.safetensors";
  ASSERT_EQ(run_command({"predict", "--checkpoint", checkpoint, "--threshold", "0.02", "--batch-size", "1",
                         "--crop", "--output", folder / "found", images}),
            0);
  const GroundTruth truth =
      read_ground_truth({.annotations = folder / "data/annotations.json", .images = images});
  const std::vector<PredictedMasks> found = predicted_in(read_bytes(folder / "found/detections.json"));
  ASSERT_FALSE(found.empty());
  expect_masks_of_library(checkpoint, images, found);
  // Objects are cut out along their masks, as PNG files with alpha, of the masks' size.
  for (const PredictedMasks& p : found) {
    const std::string path = folder / ("found/" + p.crop);
    const std::string png = read_bytes(path);
    ASSERT_GT(png.size(), 26U);
    EXPECT_EQ(png[25], p.mask.area() > 0 ? 6 : 2) << p.crop;
    if (p.mask.area() == 0) continue;
    const Image picture = read_image(path);
    EXPECT_EQ(static_cast<double>(picture.width), p.mask.box().width());
    EXPECT_EQ(static_cast<double>(picture.height), p.mask.box().height());
  }
  // Training, evaluation and report show both metrics, unless one is asked for.
  EXPECT_EQ(logged_numbers(output, "segm_AP").size(), 1U);
  EXPECT_EQ(logged_numbers(output, "segm_AP/[^\"]*").size(), 1U);
  auto metrics_of_both = [&](const std::string& command, const std::string& set, const std::string& iou) {
    std::vector<std::string> words{command};
    if (command == "eval")
      words.insert(words.end(), {"--checkpoint", checkpoint});
    else
      words.insert(words.end(), {output});
    words.insert(words.end(), {"--annotations", set, "--images", images, "--json", folder / "both.json"});
    if (!iou.empty()) words.insert(words.end(), {"--iou", iou});
    EXPECT_EQ(run_command(words), 0) << command << " " << set;
    return BothMetrics(read_bytes(folder / "both.json"));
  };
  // A set without masks has metrics of boxes, but cannot be trained on.
  const std::regex mask(",\"segmentation\":[^}]*");
  const std::string unmasked = folder / "boxes.json";
  std::ofstream(unmasked) << std::regex_replace(read_bytes(annotations), mask, "");
  for (const char* command : {"eval", "report"}) {
    const BothMetrics both = metrics_of_both(command, annotations, ""),
                      boxes = metrics_of_both(command, annotations, "bbox"),
                      masks = metrics_of_both(command, annotations, "segm"),
                      none = metrics_of_both(command, unmasked, "");
    EXPECT_EQ(both.AP, boxes.AP);
    EXPECT_EQ(both.segm_AP, masks.AP);
    EXPECT_GE(both.segm_AR_100, 0);
    for (const BothMetrics* one : {&boxes, &masks, &none}) EXPECT_EQ(one->segm_AP, -2);
    EXPECT_EQ(none.AP, boxes.AP);
  }
  ASSERT_EQ(run_command({"report", output}), 0);
  EXPECT_NE(read_bytes(output + "/report.html").find("segm_AP75"), std::string::npos);
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", folder / "unmasked",
                         "--max-steps", "1", "--set", "data.val.annotations=" + unmasked}),
            0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("metrics are for boxes only"), std::string::npos);
  EXPECT_EQ(logged_numbers(folder / "unmasked", "AP").size(), 1U);
  EXPECT_TRUE(logged_numbers(folder / "unmasked", "segm_AP").empty());
  EXPECT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", folder / "none",
                         "--set", "data.train.annotations=" + unmasked}),
            2);
  // Evaluations and lists of detections give the same metrics of masks.
  ASSERT_EQ(run_command({"eval", "--checkpoint", checkpoint, "--annotations", annotations, "--images", images,
                         "--detections", folder / "detections.json", "--iou", "segm", "--json",
                         folder / "eval.json"}),
            0);
  ASSERT_EQ(run_command({"score", "--annotations", annotations, "--detections", folder / "detections.json",
                         "--iou", "segm", "--json", folder / "score.json"}),
            0);
  const std::string figures = read_bytes(folder / "eval.json");
  EXPECT_EQ(figures, read_bytes(folder / "score.json"));
  EXPECT_EQ(figures.find("\"AR100\": 0,"), std::string::npos) << figures;
}

}  // namespace
}  // namespace saccade
