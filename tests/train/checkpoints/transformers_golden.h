// Shared by the tests against detectors of transformers, whose files scripts/golden/published makes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "autograd/scope.h"
#include "core/formats/safetensors.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "models/weights/weight_names.h"
#include "tests/objects.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/config/options.h"
#include "train/optimizers/optimizer.h"

namespace saccade {

inline void expect_close(const Tensor& ours, const Tensor& theirs, double tolerance,
                         const std::string& what) {
  auto a = ours.to_vector<float>(), b = theirs.to_vector<float>();
  ASSERT_EQ(a.size(), b.size()) << what;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  EXPECT_LE(worst, tolerance) << what;
}

// Loads the model of a file with 4 heads, 12 queries and a trainable backbone, with the configuration that
// the file implies, changed by `adjust`. missing: how many parameters the file lacks.
inline std::shared_ptr<Detector> load_detector(const std::string& path,
                                               const std::function<void(Config&)>& adjust,
                                               size_t missing = 0) {
  auto file = open_weights(path);
  OfficialWeights weights = official_weights(*file);
  Config given;
  for (const char* set : {"model.transformer.heads=4", "model.transformer.queries=12"}) apply_set(given, set);
  auto inferred = infer_config(*file, weights, given);
  EXPECT_TRUE(inferred.has_value());
  if (!inferred) return nullptr;
  Config config = inferred->config;
  config.MergeFrom(given);
  if (config.model().backbone().type() != "dinov2") {  // it has neither batch norms nor stages
    apply_set(config, "model.backbone.frozen_batch_norm=false");
    apply_set(config, "model.backbone.frozen_stages=0");
  }
  adjust(config);
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  InitReport report = fill_model(*file, weights, *model);
  EXPECT_EQ(report.missing.size(), missing) << testing::PrintToString(report.lines());
  EXPECT_TRUE(report.skipped.empty()) << testing::PrintToString(report.lines());
  return model;
}

// Compares the last layer's logits, boxes and, if the file has them, masks for the images of
// scripts/golden/published/transformers_rt_detr.py.
inline void expect_results(Detector& model, const std::string& golden_path) {
  model.set_training(false);
  SafetensorsReader golden(golden_path),
      images(SACCADE_SOURCE_DIR "/tests/golden/rt_detr/images.safetensors");
  for (bool folded : {true, false}) {
    ExecutionScope scope;
    execution().grad_enabled = !folded;
    for (int b = 0; golden.find(fmt::format("{}.logits", b)); ++b) {
      SetOutput output = set_output(
          *model.forward({.images = Var(images.read(fmt::format("{}.images", b)).to(DType::kF32))}));
      const std::string where = fmt::format("batch {}{}", b, folded ? ", folded" : "");
      expect_close(output.layers.back().logits.value(), golden.read(fmt::format("{}.logits", b)), 1e-4,
                   where);
      expect_close(output.layers.back().boxes.value(), golden.read(fmt::format("{}.boxes", b)), 1e-4, where);
      if (const std::string masks = fmt::format("{}.masks", b); golden.find(masks))
        expect_close(output.layers.back().masks.value(), golden.read(masks), 1e-3, where);
    }
  }
}

// Sets the embedding of the denoising queries, which files for evaluation lack.
inline void fill_denoising(const Module& model, const Tensor& embedding) {
  for (const NamedTensor& t : model.named_tensors()) {
    Var v = t.var;
    if (t.name == "decoder.denoising_class_embed.weight") v.value().copy_from(embedding);
  }
}

struct GoldenBatch {
  Tensor images;
  std::vector<Target> targets;
};

inline GoldenBatch read_batch(const SafetensorsReader& file, int b) {
  GoldenBatch batch{file.read(fmt::format("{}.images", b)).to(DType::kF32), {}};
  for (int64_t n = 0; n < batch.images.dim(0); ++n) {
    Target target;
    target.image_id = n;
    target.height = batch.images.dim(1);
    target.width = batch.images.dim(2);
    test::set_objects(target, file.read(fmt::format("{}.{}.labels", b, n)).to_vector<int64_t>(),
                      file.read(fmt::format("{}.{}.boxes", b, n)).to_vector<float>());
    if (const std::string name = fmt::format("{}.{}.masks", b, n); file.find(name)) {
      const Tensor masks = file.read(name);
      for (size_t i = 0; i < target.instances.size(); ++i) {
        const auto pixels = masks.select(0, static_cast<int64_t>(i)).contiguous().to_vector<uint8_t>();
        target.instances[i].mask =
            std::make_shared<const Mask>(Mask::from_bitmap({masks.dim(1), masks.dim(2)}, pixels));
      }
    }
    batch.targets.push_back(std::move(target));
  }
  return batch;
}

inline void expect_loss_part(const DetectionLoss& loss, const std::string& name, const Tensor& expected) {
  for (const auto& [ours, value] : loss.parts)
    if (ours == name) return expect_close(value, expected, 1e-3, name);
  ADD_FAILURE() << "no " << name;
}

// Compares the gradients of trained parameters, by the names in the file. factor: of the tolerance of 1e-3.
inline void expect_gradients(const Module& model, const std::string& path, double factor = 1) {
  auto file = open_weights(path);
  OfficialWeights gradients = official_weights(*file);
  size_t compared = 0;
  for (const NamedTensor& p : model.parameters()) {
    if (!p.var.requires_grad()) continue;
    const NamedWeight* theirs = gradients.find(p.name);
    ASSERT_NE(theirs, nullptr) << p.name;
    Tensor expected = read_weight(*file, *theirs);
    double largest = 0;
    for (float v : expected.to_vector<float>()) largest = std::max(largest, static_cast<double>(std::abs(v)));
    // The second term is for sums of large parts, such as the gradients in front of a batch norm.
    expect_close(p.var.grad(), expected, factor * 1e-3 * (largest + 1e-2), p.name);
    ++compared;
  }
  EXPECT_EQ(compared, gradients.tensors.size());
}

// Compares the losses of AdamW steps, with gradients clipped to a norm of 0.1.
inline void expect_curve(Detector& model, const std::vector<GoldenBatch>& batches,
                         const std::vector<float>& losses, double learning_rate) {
  config::Optimizer options;
  options.set_learning_rate(learning_rate);
  options.set_weight_decay(1e-4);
  options.set_clip_norm(0.1);
  Optimizer optimizer(model.parameters(), options);
  ASSERT_GE(losses.size(), 20);
  for (size_t step = 0; step < losses.size(); ++step) {
    const GoldenBatch& batch = batches[step % batches.size()];
    DetectionLoss loss = model.loss(*model.forward({.images = Var(batch.images)}), batch.targets);
    EXPECT_NEAR(loss.total.value().item(), losses[step], 1e-3 * losses[step]) << "step " << step;
    backward(loss.total);
    optimizer.step(1.0);
    optimizer.zero_grad();
  }
}

}  // namespace saccade
