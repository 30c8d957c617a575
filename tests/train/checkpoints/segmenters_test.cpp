// Compares the segmentation models with independent references, or with ones that are written in PyTorch
// alone: from files through the name tables and the inferred configuration to logits, the losses and all
// gradients of a step. scripts/golden/published/segmenters.py makes the files.
#include <gtest/gtest.h>

#include "models/segmentation/encoder_decoder.h"
#include "models/weights/weight_naming.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"
#include "tests/train/checkpoints/transformers_golden.h"

namespace saccade {
namespace {

constexpr int64_t kGoldenClasses = 5;
const std::string kSegmentersFolder = SACCADE_SOURCE_DIR "/tests/golden/segmenters/";

struct GoldenSegmenter {
  const char* name;
  std::vector<const char*> sets;
  int64_t count, height, width;
};

// These equal images_of() and labels_of() of the script.
Tensor golden_images(const GoldenSegmenter& g) {
  Tensor t = Tensor::empty({g.count, g.height, g.width, 3});
  for (uint64_t i = 0; i < static_cast<uint64_t>(t.numel()); ++i) {
    const uint64_t bits = ((i * 2654435761U % (uint64_t{1} << 32)) ^ (i * 40503U % (1U << 16))) >> 8;
    t.data<float>()[i] = static_cast<float>(bits) / static_cast<float>(1 << 22) - 2;
  }
  return t;
}
Tensor golden_labels(const GoldenSegmenter& g) {
  Tensor t = Tensor::empty({g.count, g.height, g.width}, DType::kI64);
  int64_t* p = t.data<int64_t>();
  for (int64_t n = 0; n < g.count; ++n)
    for (int64_t y = 0; y < g.height; ++y)
      for (int64_t x = 0; x < g.width; ++x) {
        const int64_t value = (y / 9 * 3 + x / 7 * 5 + n) % (kGoldenClasses + 2);
        *p++ = value < kGoldenClasses ? value : -1;
      }
  return t;
}

Config config_of_file(const WeightsFile& file, const OfficialWeights& weights,
                      const std::vector<const char*>& sets) {
  Config given;
  for (const char* set : sets) apply_set(given, set);
  const auto inferred = infer_config(file, weights, given);
  EXPECT_TRUE(inferred.has_value());
  Config config = inferred ? inferred->config : Config();
  for (const char* set : sets) apply_set(config, set);
  return config;
}

std::shared_ptr<Segmenter> load_segmenter(const GoldenSegmenter& g) {
  auto file = open_weights(kSegmentersFolder + g.name + ".safetensors");
  const OfficialWeights weights = official_weights(*file);
  const Config config = config_of_file(*file, weights, g.sets);
  auto model = build_as<Segmenter>(model_args(config), config.model().num_classes(), criterion_args(config));
  const InitReport report = fill_model(*file, weights, *model);
  EXPECT_TRUE(report.missing.empty() && report.skipped.empty()) << testing::PrintToString(report.lines());
  return model;
}

class SegmenterFiles : public testing::TestWithParam<GoldenSegmenter> {};

TEST_P(SegmenterFiles, LogitsLossesAndGradientsAreTheReferences) {
  const GoldenSegmenter& g = GetParam();
  auto model = load_segmenter(g);
  EXPECT_EQ(model->num_classes(), kGoldenClasses);
  const SafetensorsReader golden(kSegmentersFolder + g.name + ".golden.safetensors");
  const Var images(golden_images(g));
  const std::vector<int> channels_last{0, 2, 3, 1};
  const Tensor expected = permute(Var(golden.read("logits")), channels_last).value().contiguous();
  model->set_training(false);
  for (bool folded : {true, false}) {
    ExecutionScope scope;
    execution().grad_enabled = !folded;
    const SegmenterOutput output = model->forward(images);
    EXPECT_EQ(output.logits.shape(), expected.shape());
    EXPECT_FALSE(output.auxiliary.defined());
    expect_close(output.logits.value(), expected, 1e-4, folded ? "folded" : "logits");
  }
  model->set_training(true);
  const Tensor labels = golden_labels(g);
  double labelled = 0;
  for (int64_t label : labels.to_vector<int64_t>()) labelled += label >= 0;
  const bool of_all = std::string(g.name) == "fpn";
  const SegmentationLoss loss =
      model->loss(model->forward(images), labels, of_all ? static_cast<double>(labels.numel()) : labelled);
  double sum = 0;
  for (const auto& [name, value] : loss.parts) {
    expect_close(value, golden.read("loss." + name), 1e-3, name);
    sum += value.item();
  }
  EXPECT_EQ(loss.parts.size(), of_all ? 1U : 2U);
  EXPECT_NEAR(loss.total.value().item(), sum, 1e-6 * sum);
  backward(loss.total);
  expect_gradients(*model, kSegmentersFolder + g.name + ".gradients.safetensors");
}

INSTANTIATE_TEST_SUITE_P(
    Files, SegmenterFiles,
    testing::Values(
        GoldenSegmenter{"swin", {"model.uper_net.dropout=0"}, 3, 96, 96},
        GoldenSegmenter{
            "pvt", {"model.uper_net.dropout=0", "model.backbone.arg.heads=[1, 2, 3, 4]"}, 3, 64, 64},
        GoldenSegmenter{"fpn",
                        {"model.semantic_fpn.dropout=0", "model.backbone.frozen_batch_norm=false",
                         "model.backbone.frozen_stages=0", "criterion.class_weights=0.5,1,1.5,2,0.25"},
                        2,
                        70,
                        90}),
    [](const auto& p) { return std::string(p.param.name); });

// Tests what the files tell about the configuration.
TEST(SegmenterFiles, SayWhatModelTheyAreOf) {
  auto inferred = [](const std::string& name) {
    auto file = open_weights(kSegmentersFolder + name + ".safetensors");
    return infer_config(*file, official_weights(*file), {}).value();
  };
  const InferredConfig swin = inferred("swin");
  EXPECT_EQ(swin.config.model().type(), "uper_net");
  EXPECT_EQ(swin.config.model().backbone().type(), "swin");
  EXPECT_EQ(swin.config.model().backbone().outputs_size(), 4);
  EXPECT_EQ(swin.config.model().uper_net().channels(), 8);
  EXPECT_EQ(swin.config.model().uper_net().auxiliary_channels(), 6);
  EXPECT_EQ(swin.config.model().uper_net().auxiliary_map(), 3);
  EXPECT_TRUE(swin.config.criterion().mean_over_labelled());
  EXPECT_EQ(swin.assumed, std::vector<std::string>{"model.uper_net.pool_sizes: 1,2,3,6"});
  EXPECT_EQ(inferred("pvt").config.model().backbone().type(), "pvt");
  const Config fpn = inferred("fpn").config;
  EXPECT_EQ(fpn.model().type(), "semantic_fpn");
  EXPECT_EQ(fpn.model().backbone().variant(), "c");
  EXPECT_EQ(fpn.model().semantic_fpn().channels(), 8);
  EXPECT_EQ(fpn.model().semantic_fpn().head_channels(), 6);
  EXPECT_FALSE(fpn.criterion().mean_over_labelled());
}

// What the names do not tell is asked for, and what does not fit is reported.
TEST(SegmenterFiles, RefuseOtherHeads) {
  const SafetensorsReader file(kSegmentersFolder + "swin.safetensors");
  auto infer = [&](const std::function<bool(const std::string&)>& keep,
                   const std::function<Tensor(const std::string&, const Tensor&)>& change) {
    TestFolder folder;
    NamedValues tensors;
    for (const auto& entry : file.entries())
      if (keep(entry.name)) tensors.emplace_back(entry.name, change(entry.name, file.read(entry.name)));
    const std::string path = folder / "other.safetensors";
    write_safetensors(path, tensors, {{"format", "pt"}});
    auto other = open_weights(path);
    return infer_config(*other, official_weights(*other), {}).value().config;
  };
  const auto all = [](const std::string&) { return true; };
  const auto same = [](const std::string&, const Tensor& t) { return t; };
  EXPECT_NE(input_error([&] {
              infer([](const std::string& name) { return name.find("psp_modules.3.") == std::string::npos; },
                    same);
            }).find("3 pooled maps, whose sizes are not in the file (--set model.uper_net.pool_sizes=...)"),
            std::string::npos);
  EXPECT_NE(input_error([&] {
              infer(all, [](const std::string& name, const Tensor& t) {
                return name == "auxiliary_head.convs.0.conv.weight" ? Tensor::zeros({6, 7, 3, 3}) : t;
              });
            }).find("the auxiliary head reads 7 channels, expected those of one of the maps (4, 8, 16, 32)"),
            std::string::npos);
  const Config without =
      infer([](const std::string& name) { return !name.starts_with("auxiliary_head."); }, same);
  EXPECT_EQ(without.model().uper_net().auxiliary_channels(), 0);
}

}  // namespace
}  // namespace saccade
