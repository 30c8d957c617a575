// Tests the segmentation models' losses, sizes and wrong configurations.
// tests/train/checkpoints/segmenters_test.cpp compares them with transformers.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "core/tensor/execution.h"
#include "models/segmentation/encoder_decoder.h"
#include "models/summary.h"
#include "tests/input_error.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

constexpr int64_t kPixelClasses = 3;

Tensor pixel_noise(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  init::uniform(-2, 2)(t, rng);
  return t;
}

// A configuration with a small ResNet whose norms are trained. more: further fields, as --set has them
Config segmenter_config(const std::string& type, const std::vector<std::string>& more = {}) {
  Config config = test::config_of(type);
  std::vector<std::string> sets{"model.backbone.blocks=1,1,1,1", "model.backbone.width=4",
                                "model.backbone.frozen_batch_norm=false", "model.backbone.frozen_stages=0"};
  if (type == "uper_net")
    sets.insert(sets.end(), {"model.uper_net.channels=8", "model.uper_net.auxiliary_channels=6"});
  else
    sets.insert(sets.end(), {"model.semantic_fpn.channels=8", "model.semantic_fpn.head_channels=6"});
  sets.insert(sets.end(), more.begin(), more.end());
  for (const std::string& set : sets) apply_set(config, set);
  return config;
}
std::shared_ptr<Segmenter> build_segmenter(const Config& config) {
  auto model = build_as<Segmenter>(model_args(config), kPixelClasses, criterion_args(config));
  model->initialize(1);
  return model;
}
std::shared_ptr<Segmenter> build_segmenter(const std::string& type,
                                           const std::vector<std::string>& more = {}) {
  return build_segmenter(segmenter_config(type, more));
}

Tensor pixel_labels(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::empty(shape, DType::kI64);
  Rng rng(seed);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = rng.below(kPixelClasses + 1) - 1;
  return t;
}

TEST(Segmenter, LossIsTheCrossEntropyOfPixelsThatHaveAClass) {
  const auto model = build_segmenter("uper_net", {"criterion.class_weights=0.5,1,3"});
  const double weights[] = {0.5, 1, 3};
  SegmenterOutput output{Var(pixel_noise({2, 3, 4, kPixelClasses}, 1), true),
                         Var(pixel_noise({2, 2, 2, kPixelClasses}, 2), true)};
  const Tensor map = pixel_labels({2, 6, 9}, 3);
  auto expected = [&](const Var& logits) {
    const auto x = resize_bilinear(logits, 6, 9).value().to_vector<float>();
    double sum = 0;
    for (int64_t i = 0; i < map.numel(); ++i) {
      const int64_t label = map.data<int64_t>()[i];
      if (label < 0) continue;
      const float* row = x.data() + i * kPixelClasses;
      double total = 0;
      for (int64_t k = 0; k < kPixelClasses; ++k) total += std::exp(static_cast<double>(row[k]));
      sum += weights[label] * (std::log(total) - static_cast<double>(row[label]));
    }
    return sum;
  };
  const double main = expected(output.logits) / 50, auxiliary = 0.4 * expected(output.auxiliary) / 50;
  const SegmentationLoss loss = model->loss(output, map, 50);
  ASSERT_EQ(loss.parts.size(), 2U);
  EXPECT_EQ(loss.parts[0].first, "class");
  EXPECT_EQ(loss.parts[1].first, "auxiliary");
  EXPECT_NEAR(loss.parts[0].second.item(), main, 1e-5 * main);
  EXPECT_NEAR(loss.parts[1].second.item(), auxiliary, 1e-5 * auxiliary);
  EXPECT_NEAR(loss.total.value().item(), main + auxiliary, 1e-5 * main);
}

TEST(Segmenter, BatchesOfAStepAddUp) {
  const auto model = build_segmenter("semantic_fpn");
  const Tensor all = pixel_noise({3, 4, 4, kPixelClasses}, 1), map = pixel_labels({3, 16, 16}, 2);
  auto loss_of = [&](int64_t begin, int64_t end) {
    SegmenterOutput output{Var(all.slice(0, begin, end).contiguous()), {}};
    return model->loss(output, map.slice(0, begin, end), 700).total.value().item();
  };
  const double whole = loss_of(0, 3);
  EXPECT_NEAR(loss_of(0, 1) + loss_of(1, 3), whole, 1e-6 * whole);
}

TEST(Segmenter, AMapWithoutClassesTeachesNothing) {
  const auto model = build_segmenter("uper_net");
  model->set_training(true);
  const Tensor nothing = Tensor::full({2, 64, 64}, -1, DType::kI64);
  const SegmentationLoss loss = model->loss(model->forward(Var(pixel_noise({2, 64, 64, 3}, 1))), nothing, 1);
  EXPECT_EQ(loss.total.value().item(), 0);
  backward(loss.total);
  for (const NamedTensor& p : model->parameters()) {
    ASSERT_TRUE(p.var.grad().defined()) << p.name;
    for (float g : p.var.grad().to_vector<float>()) ASSERT_EQ(g, 0) << p.name;
  }
}

// Logits have a quarter of the sides, whatever these are; the auxiliary head runs only in training.
TEST(Segmenter, TakesImagesOfAllSizes) {
  for (const char* type : {"semantic_fpn", "uper_net"}) {
    const auto model = build_segmenter(type);
    for (auto [height, width] : {std::pair{64, 64}, {33, 70}, {1, 1}, {97, 5}}) {
      for (bool training : {false, true}) {
        model->set_training(training);
        const SegmenterOutput output = model->forward(Var(pixel_noise({2, height, width, 3}, 1)));
        EXPECT_EQ(output.logits.shape(), Shape({2, (height + 3) / 4, (width + 3) / 4, kPixelClasses}))
            << type << " " << height << " x " << width;
        EXPECT_EQ(output.auxiliary.defined(), training && std::string(type) == "uper_net");
        for (float v : logits_at(output.logits, height, width).value().to_vector<float>())
          ASSERT_TRUE(std::isfinite(v));
      }
    }
  }
}

// In each image a channel is dropped as a whole.
TEST(Segmenter, DropoutIsOfChannels) {
  ExecutionScope scope;
  execution().rng_key = 5;
  FcnHead head({.classes = 1, .channels = 40, .dropout = 0.5}, {2}, 0);
  head.initialize(1);
  head.set_training(true);
  const Tensor x = Tensor::full({2, 6, 6, 2}, 1);
  const auto logits = head.forward({Var(x)}).value().to_vector<float>();
  // Away from the edges all cells have the same input.
  auto cell = [&](size_t n, size_t row, size_t column) { return logits[(n * 6 + row) * 6 + column]; };
  for (size_t n = 0; n < 2; ++n)
    for (size_t i = 1; i < 5; ++i) EXPECT_EQ(cell(n, i, 2), cell(n, 2, 2));
  EXPECT_NE(cell(0, 2, 2), cell(1, 2, 2));
}

TEST(Segmenter, SummaryCountsTheHeads) {
  const auto model = build_segmenter("semantic_fpn");
  const ModelSummary summary = summarize(*model, 64, 64);
  EXPECT_EQ(summary.parameters, model->parameter_count());
  int64_t macs = 0;
  for (const ModuleCost& m : summary.modules)
    if (m.name == "decode_head.conv_seg") macs = m.macs;
  EXPECT_EQ(macs, 16 * 16 * 6 * kPixelClasses);
}

TEST(Segmenter, RefusesWhatDoesNotFit) {
  struct Row {
    const char* type;
    const char* set;
    const char* error;
  };
  const Row rows[] = {
      {"uper_net", "model.uper_net.auxiliary_map=5",
       "model.uper_net.auxiliary_map: 5, but the backbone has 4 maps"},
      {"uper_net", "model.uper_net.pool_sizes=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
       "model.uper_net.pool_sizes: 17 numbers, expected at most 16"},
      {"uper_net", "criterion.class_weights=1,2",
       "criterion.class_weights: 2 numbers, expected one for each of the 3 classes"},
      {"semantic_fpn", "criterion.class_weights=1,2,3,4",
       "criterion.class_weights: 4 numbers, expected one for each of the 3 classes"},
  };
  for (const Row& row : rows)
    EXPECT_EQ(input_error([&] { build_segmenter(row.type, {row.set}); }), row.error) << row.set;
  // The pyramid needs maps that halve; UperNet takes all.
  const std::string dilation = "model.backbone.dilation=true";
  const Var image(pixel_noise({1, 64, 64, 3}, 1));
  EXPECT_EQ(input_error([&] { build_segmenter("semantic_fpn", {dilation})->forward(image); }),
            "model.backbone: a map of 4 x 4 cells above one of 4 x 4, expected half its size");
  EXPECT_EQ(build_segmenter("uper_net", {dilation})->forward(image).logits.dim(1), 16);
}

}  // namespace
}  // namespace saccade
