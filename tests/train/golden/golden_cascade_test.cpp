// Compares Cascade Mask R-CNN with an independent PyTorch model (scripts/golden/cascade.py), which has
// mmdetection's names and rules: its detections, the losses and gradients of a step and the losses of a
// training, with stock heads and with those of the Swin and DAT papers.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "models/detector.h"
#include "tests/test_folder.h"
#include "tests/train/golden/near_golden.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

const std::string kCascadeFolder = SACCADE_SOURCE_DIR "/tests/golden/cascade/";

class GoldenCascade : public testing::TestWithParam<std::string> {
 protected:
  GoldenCascade()
      : weights_(kCascadeFolder + GetParam() + ".weights.safetensors"),
        golden_(kCascadeFolder + GetParam() + ".golden.safetensors") {}

  LoadedModel load() const {
    const std::string checkpoint = folder_ / "x.safetensors";
    EXPECT_EQ(run_convert({.input = weights_,
                           .output = checkpoint,
                           .set = {"model.rcnn.anchor_scale=4", "model.rcnn.train_candidates=16",
                                   "model.rcnn.candidates=16", "model.rcnn.train_proposals=32",
                                   "model.rcnn.proposals=24", "model.rcnn.rpn_samples=100000",
                                   "model.rcnn.samples=400", "model.rcnn.detections=12",
                                   "model.backbone.frozen_stages=0"}}),
              0);
    return load_trained_model(checkpoint, Device::kCpu);
  }
  DetectorInput input() const {
    DetectorInput input{.images = Var(golden_.read("images")), .sizes = {}};
    const std::vector<int64_t> sizes = golden_.read("sizes").to_vector<int64_t>();
    for (size_t n = 0; n < sizes.size() / 2; ++n) input.sizes.push_back({sizes[2 * n], sizes[2 * n + 1]});
    return input;
  }
  std::vector<Target> targets() const {
    std::vector<Target> targets;
    for (const ImageSize& size : input().sizes) {
      const std::string prefix = fmt::format("{}.", targets.size());
      Target target{.image_id = std::ssize(targets), .height = size.height, .width = size.width};
      target.frame = size;
      const auto labels = golden_.read(prefix + "labels").to_vector<int64_t>();
      const auto boxes = golden_.read(prefix + "boxes").to_vector<float>();
      const Tensor masks = golden_.read(prefix + "masks");
      for (size_t i = 0; i < labels.size(); ++i) {
        const auto pixels = masks.select(0, static_cast<int64_t>(i)).to_vector<uint8_t>();
        target.instances.push_back(
            {.label = labels[i],
             .box = {boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]},
             .mask = std::make_shared<const Mask>(Mask::from_bitmap(size, pixels))});
      }
      targets.push_back(std::move(target));
    }
    return targets;
  }

  TestFolder folder_;
  std::string weights_;
  SafetensorsReader golden_;
};

TEST_P(GoldenCascade, FindsWhatPyTorchFinds) {
  const LoadedModel loaded = load();
  Detector& model = loaded.as<Detector>();
  model.set_training(false);
  const NoGrad no_grad;
  const DetectorInput in = input();
  const auto width = static_cast<float>(in.images.dim(2)), height = static_cast<float>(in.images.dim(1));
  const auto results = model.forward(in)->results();
  ASSERT_EQ(results.size(), 4U);
  for (const auto& [name, value] : results) {
    Tensor expected = golden_.read("found." + name);
    if (name == "boxes")
      expected = div(Var(expected), Var(Tensor::from<float>({4}, std::vector{width, height, width, height})))
                     .value();
    ASSERT_EQ(value.shape(), expected.shape()) << name;
    expect_near_golden(value.value(), expected, name);
  }
}

TEST_P(GoldenCascade, LearnsAsPyTorchDoes) {
  const LoadedModel loaded = load();
  Detector& model = loaded.as<Detector>();
  model.set_training(true);
  DetectorInput in = input();
  const std::vector<Target> objects = targets();
  in.targets = &objects;
  const DetectionLoss loss = model.loss(*model.forward(in), objects);
  EXPECT_EQ(loss.parts.size(), 11U);
  for (const auto& [name, value] : loss.parts) expect_near_golden(value, golden_.read("loss." + name), name);
  backward(loss.total);
  size_t compared = 0;
  double largest = 0;
  for (const WeightEntry& e : golden_.entries())
    if (e.name.starts_with("grad.")) largest = std::max(largest, largest_in(golden_.read(e.name)));
  for (const NamedTensor& t : model.parameters()) {
    if (!t.var.requires_grad()) continue;
    ASSERT_TRUE(t.var.grad().defined()) << t.name;
    const Tensor expected = golden_.read("grad." + t.name);
    const auto a = t.var.grad().to_vector<double>(), b = expected.to_vector<double>();
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    EXPECT_LE(worst, 1e-3 * largest_in(expected) + 1e-6 * largest) << t.name;
    ++compared;
  }
  EXPECT_GT(compared, 60U);
}

TEST_P(GoldenCascade, LossesOfATrainingEqualPyTorch) {
  const LoadedModel loaded = load();
  Detector& model = loaded.as<Detector>();
  model.set_training(true);
  DetectorInput in = input();
  const std::vector<Target> objects = targets();
  in.targets = &objects;
  config::Optimizer options;
  options.set_type("sgd");
  options.set_learning_rate(golden_.read("rate").item());
  options.set_weight_decay(0);
  options.set_momentum(0);
  options.set_clip_norm(0);
  Optimizer optimizer(model.parameters(), options);
  const std::vector<double> curve = golden_.read("curve").to_vector<double>();
  ASSERT_EQ(curve.size(), 30U);
  for (size_t step = 0; step < curve.size(); ++step) {
    const DetectionLoss loss = model.loss(*model.forward(in), objects);
    EXPECT_NEAR(loss.total.value().item(), curve[step], 1e-3 * curve[step]) << "step " << step;
    backward(loss.total);
    optimizer.step(1.0);
    optimizer.zero_grad();
  }
}

// Our names are mmdetection's, so a converted file keeps them, and its weights tell the configuration.
TEST_P(GoldenCascade, IsKnownByItsWeights) {
  const config::Model model = load().config.model();
  EXPECT_EQ(model.type(), "cascade_mask_rcnn");
  EXPECT_EQ(model.num_classes(), 3);
  EXPECT_EQ(model.rcnn().head_dim(), 16);
  const bool papers = GetParam() == "papers";
  EXPECT_EQ(model.rcnn().head_convs(), papers ? 4 : 0);
  EXPECT_EQ(model.rcnn().head_layers(), papers ? 1 : 2);
  EXPECT_EQ(model.rcnn().class_agnostic(), !papers);
  EXPECT_EQ(model.rcnn().bbox_loss(), papers ? "giou" : "smooth_l1");
  const SafetensorsReader converted(folder_ / "x.safetensors"), theirs(weights_);
  for (const WeightEntry& e : theirs.entries())
    EXPECT_EQ(converted.read(e.name).to_vector<float>(), theirs.read(e.name).to_vector<float>()) << e.name;
}

INSTANTIATE_TEST_SUITE_P(Heads, GoldenCascade, testing::Values("stock", "papers"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace saccade
