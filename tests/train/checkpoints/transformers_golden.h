// What tests against detectors of transformers share: scripts/golden/published makes the files.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "models/detector.h"
#include "models/weights/weight_names.h"
#include "tests/objects.h"
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
    batch.targets.push_back(std::move(target));
  }
  return batch;
}

inline void expect_loss_part(const DetectionLoss& loss, const std::string& name, const Tensor& expected) {
  for (const auto& [ours, value] : loss.parts)
    if (ours == name) return expect_close(value, expected, 1e-3, name);
  ADD_FAILURE() << "no " << name;
}

// Those of all trained parameters, by the names of the file. factor: of the tolerance of a thousandth.
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
    // The second term is for what is a sum of large parts, such as the gradients in front of a batch norm.
    expect_close(p.var.grad(), expected, factor * 1e-3 * (largest + 1e-2), p.name);
    ++compared;
  }
  EXPECT_EQ(compared, gradients.tensors.size());
}

// The losses of AdamW steps, gradients clipped to a norm of 0.1.
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
