// D-FINE against transformers' forward pass and losses written from the paper: scripts/golden/published/transformers_d_fine.py makes the
// files.
#include "autograd/scope.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/train/checkpoints/transformers_golden.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/config/options.h"

namespace saccade {
namespace {

const std::string kDFineFolder = SACCADE_SOURCE_DIR "/tests/golden/d_fine/";

// missing: the parameters that the file lacks.
std::shared_ptr<Detector> load_d_fine(const std::vector<std::string>& sets = {}, size_t missing = 0) {
  auto file = open_weights(kDFineFolder + "small.safetensors");
  OfficialWeights weights = official_weights(*file);
  Config given;
  for (const char* set : {"model.transformer.heads=4", "model.transformer.queries=12"}) apply_set(given, set);
  auto inferred = infer_config(*file, weights, given);
  EXPECT_TRUE(inferred.has_value());
  if (!inferred) return nullptr;
  Config config = inferred->config;
  config.MergeFrom(given);
  EXPECT_EQ(config.model().type(), "d_fine");
  apply_set(config, "model.backbone.frozen_batch_norm=false");
  apply_set(config, "model.backbone.frozen_stages=0");
  for (const std::string& set : sets) apply_set(config, set);
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  InitReport report = fill_model(*file, weights, *model);
  EXPECT_EQ(report.missing.size(), missing) << testing::PrintToString(report.lines());
  EXPECT_TRUE(report.skipped.empty()) << testing::PrintToString(report.lines());
  return model;
}

TEST(DFineFiles, LogitsAndBoxesAreTransformers) {
  auto model = load_d_fine();
  ASSERT_NE(model, nullptr);
  model->set_training(false);
  SafetensorsReader golden(kDFineFolder + "small.golden.safetensors"),
      images(SACCADE_SOURCE_DIR "/tests/golden/rt_detr/images.safetensors");
  for (bool folded : {true, false}) {
    ExecutionScope scope;
    execution().grad_enabled = !folded;
    for (int b = 0; golden.find(fmt::format("{}.logits", b)); ++b) {
      SetOutput output = set_output(
          *model->forward({.images = Var(images.read(fmt::format("{}.images", b)).to(DType::kF32))}));
      const std::string where = fmt::format("batch {}{}", b, folded ? ", folded" : "");
      expect_close(output.layers.back().logits.value(), golden.read(fmt::format("{}.logits", b)), 1e-4,
                   where);
      expect_close(output.layers.back().boxes.value(), golden.read(fmt::format("{}.boxes", b)), 1e-4, where);
    }
  }
}

TEST(DFineTraining, LossesAndGradientsAreThoseOfThePaper) {
  auto model = load_d_fine({"model.transformer.denoising.queries=6"}, 1);
  model->set_training(true);
  SafetensorsReader golden(kDFineFolder + "small.training.safetensors");
  for (const NamedTensor& t : model->named_tensors()) {
    Var v = t.var;
    if (t.name == "decoder.denoising_class_embed.weight") v.value().copy_from(golden.read("denoising"));
  }
  GoldenBatch batch = read_batch(golden, 0);
  ExecutionScope scope;
  execution().rng_key = 77;
  DetectionLoss loss =
      model->loss(*model->forward({.images = Var(batch.images), .targets = &batch.targets}), batch.targets);
  size_t parts = 0;
  for (const auto& entry : golden.entries()) {
    const std::string prefix = "loss.";
    if (!entry.name.starts_with(prefix) || entry.name == "loss.total") continue;
    expect_loss_part(loss, entry.name.substr(prefix.size()), golden.read(entry.name));
    ++parts;
  }
  EXPECT_EQ(loss.parts.size(), parts);
  const double total = golden.read("loss.total").to_vector<float>()[0];
  EXPECT_NEAR(loss.total.value().item(), total, 1e-4 * total);
  backward(loss.total);
  // PyTorch's own gradients in f32 stray from those in f64, which the file has, by up to 8.7 times the tolerance.
  expect_gradients(*model, kDFineFolder + "small.gradients.safetensors", 10);
}

// Later a pair that two layers match otherwise changes hands: PyTorch's own curve strays by more than the tolerance from weights that
// differ by 2e-6.
TEST(DFineTraining, FollowsThePaperForTwentySteps) {
  auto model = load_d_fine();
  model->set_training(true);
  SafetensorsReader golden(kDFineFolder + "small.training.safetensors");
  const std::vector<GoldenBatch> batches{read_batch(golden, 0), read_batch(golden, 1)};
  expect_curve(*model, batches, golden.read("curve").to_vector<float>(), 5e-6);
}

}  // namespace
}  // namespace saccade
