// Compares RT-DETR with transformers, an independent implementation: from files as they are published,
// through the reader, the name tables and the inferred configuration, to logits and boxes, the losses and all
// gradients of a step, and a training curve. scripts/golden/published/transformers_rt_detr.py makes the
// files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "tests/test_folder.h"
#include "tests/train/checkpoints/transformers_golden.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

const std::string kRtDetrFolder = SACCADE_SOURCE_DIR "/tests/golden/rt_detr/";

struct RtDetrFile {
  const char *name, *weights, *golden;
};

// missing: the number of parameters that the file lacks.
std::shared_ptr<Detector> load_rt_detr(const std::string& path, const std::vector<std::string>& sets = {},
                                       size_t missing = 0) {
  return load_detector(
      kRtDetrFolder + path,
      [&](Config& config) {
        // Official files need the official code's encoding of rectangles.
        const bool official = path.ends_with(".pth");
        EXPECT_EQ(config.model().rt_detr().hybrid_encoder().transposed_position(), official);
        if (official) apply_set(config, "model.rt_detr.hybrid_encoder.transposed_position=false");
        if (path.starts_with("bottleneck")) {
          apply_set(config, "model.backbone.frozen_batch_norm=true");
          config.mutable_model()->mutable_backbone()->clear_frozen_stages();
        }
        for (const std::string& set : sets) apply_set(config, set);
      },
      missing);
}

class RtDetrFiles : public testing::TestWithParam<RtDetrFile> {};

TEST_P(RtDetrFiles, LogitsAndBoxesAreTransformers) {
  auto model = load_rt_detr(GetParam().weights);
  ASSERT_NE(model, nullptr);
  expect_results(*model, kRtDetrFolder + GetParam().golden);
}

INSTANTIATE_TEST_SUITE_P(Files, RtDetrFiles,
                         testing::Values(RtDetrFile{"v1", "basic.safetensors", "basic.golden.safetensors"},
                                         RtDetrFile{"official_v1", "basic.pth", "basic.golden.safetensors"},
                                         RtDetrFile{"bottlenecks", "bottleneck.safetensors",
                                                    "bottleneck.golden.safetensors"},
                                         RtDetrFile{"v2", "v2.safetensors", "v2.golden.safetensors"}),
                         [](const auto& p) { return std::string(p.param.name); });

// Uses the weights of v2. Another sampling is another model, and nothing in the weights tells.
TEST(RtDetrDiscrete, IsTransformersDecoderMethod) {
  auto model = load_rt_detr("v2.safetensors", {"model.rt_detr.decoder_sampling=discrete"});
  auto bilinear = load_rt_detr("v2.safetensors");
  ASSERT_NE(model, nullptr);
  model->set_training(false);
  bilinear->set_training(false);
  SafetensorsReader golden(kRtDetrFolder + "v2.discrete.safetensors"),
      images(kRtDetrFolder + "images.safetensors");
  for (int b = 0; golden.find(fmt::format("{}.logits", b)); ++b) {
    const Var batch(images.read(fmt::format("{}.images", b)).to(DType::kF32));
    const SetOutput output = set_output(*model->forward({.images = batch}));
    const Tensor logits = golden.read(fmt::format("{}.logits", b));
    expect_close(output.layers.back().logits.value(), logits, 1e-4, fmt::format("batch {}", b));
    expect_close(output.layers.back().boxes.value(), golden.read(fmt::format("{}.boxes", b)), 1e-4,
                 fmt::format("batch {}", b));
    const auto other =
        set_output(*bilinear->forward({.images = batch})).layers.back().logits.value().to_vector<float>();
    double apart = 0;
    for (size_t i = 0; i < other.size(); ++i)
      apart = std::max(apart, std::abs(static_cast<double>(other[i]) - logits.to_vector<float>()[i]));
    EXPECT_GT(apart, 0.01);
    if (b > 0) continue;
    backward(sum(output.layers.back().logits));
    const std::string attention = "decoder.decoder.layers.2.cross_attn.";
    for (const NamedTensor& t : model->parameters()) {
      for (const char* name : {"value_proj", "attention_weights"})
        if (t.name == attention + name + ".weight")
          expect_close(t.var.grad(), golden.read(std::string("gradient.") + name), 1e-3, t.name);
      if (t.name.find("sampling_offsets") != std::string::npos) {
        EXPECT_FALSE(t.var.grad().defined()) << t.name;
      }
    }
  }
}

// Published files hold the embedding of the denoising queries; files for evaluation do not.
TEST(RtDetrConversion, TakesFilesWithTheDenoisingEmbeddingAndWithout) {
  TestFolder folder;
  const SafetensorsReader file(kRtDetrFolder + "basic.safetensors");
  NamedValues tensors;
  for (const auto& entry : file.entries()) tensors.emplace_back(entry.name, file.read(entry.name));
  for (bool with : {false, true}) {
    const std::string in = folder / fmt::format("in{}.safetensors", with),
                      out = folder / fmt::format("out{}.safetensors", with);
    const int64_t classes = file.find("model.decoder.class_embed.0.bias")->shape[0];
    const Tensor rows = Tensor::full({classes + 1, 16}, 0.5, DType::kF32);
    if (with) tensors.emplace_back("model.denoising_class_embed.weight", rows);
    write_safetensors(in, tensors, {{"format", "pt"}});
    run_convert(
        {.input = in, .output = out, .set = {"model.transformer.heads=4", "model.transformer.queries=12"}});
    EXPECT_EQ(load_trained_model(out).config.model().transformer().denoising().queries(), with ? 100 : 0);
    const SafetensorsReader converted(out);
    const std::string name = "decoder.denoising_class_embed.weight";
    ASSERT_EQ(converted.find(name) != nullptr, with);
    if (!with) continue;
    EXPECT_EQ(converted.read(name).to_vector<float>(), rows.to_vector<float>());
  }
}

// The losses of transformers by our names: "loss_vfl_aux_2" is that of the proposals, behind two decoder
// layers. Its denoising queries have our noise.
TEST(RtDetrTraining, LossesAndGradientsAreTransformers) {
  auto model = load_rt_detr("basic.safetensors", {"model.transformer.denoising.queries=6"}, 1);
  model->set_training(true);
  SafetensorsReader golden(kRtDetrFolder + "basic.training.safetensors");
  fill_denoising(*model, golden.read("denoising"));
  GoldenBatch batch = read_batch(golden, 0);
  ExecutionScope scope;
  execution().rng_key = 77;
  DetectionLoss loss =
      model->loss(*model->forward({.images = Var(batch.images), .targets = &batch.targets}), batch.targets);
  auto expect_part = [&](const std::string& theirs, const std::string& ours) {
    expect_loss_part(loss, ours, golden.read("loss." + theirs));
  };
  for (auto [theirs, ours] : {std::pair("loss_vfl", "class"), {"loss_bbox", "bbox"}, {"loss_giou", "giou"}})
    for (auto [aux, suffix] : {std::pair("", ""),
                               {"_aux_0", "_0"},
                               {"_aux_1", "_1"},
                               {"_aux_2", "_enc"},
                               {"_dn_0", "_dn_0"},
                               {"_dn_1", "_dn_1"},
                               {"_dn_2", "_dn"}})
      expect_part(std::string(theirs) + aux, std::string(ours) + suffix);
  EXPECT_EQ(loss.parts.size(), 21);
  const double total = golden.read("loss.total").to_vector<float>()[0];
  EXPECT_NEAR(loss.total.value().item(), total, 1e-4 * total);

  backward(loss.total);
  expect_gradients(*model, kRtDetrFolder + "basic.gradients.safetensors");
}

TEST(RtDetrTraining, FollowsTransformersForThirtySteps) {
  auto model = load_rt_detr("basic.safetensors");
  model->set_training(true);
  SafetensorsReader golden(kRtDetrFolder + "basic.training.safetensors");
  std::vector<GoldenBatch> batches{read_batch(golden, 0), read_batch(golden, 1)};
  expect_curve(*model, batches, golden.read("curve").to_vector<float>(), 2e-5);
}

}  // namespace
}  // namespace saccade
