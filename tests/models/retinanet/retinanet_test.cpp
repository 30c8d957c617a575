// Tests RetinaNet's losses and detections against plain loops, and how padding and the splitting of steps
// affect them.
#include "models/retinanet/dense_output.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "core/runtime/gpu.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "models/not_finite.h"
#include "models/pyramid/anchor_targets.h"
#include "tests/input_error.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

constexpr int64_t kDenseClasses = 3;

std::shared_ptr<DenseOptions> dense_options() {
  auto options = std::make_shared<DenseOptions>(
      DenseOptions{.anchors = Anchors({.strides = {8, 16}, .scales = {2}, .ratios = {0.5, 1}})});
  options->columns = kDenseClasses;
  return options;
}

// Makes predictions for images of these sizes in a canvas, which do not depend on the canvas.
DenseOutput make_output(const std::vector<ImageSize>& sizes, ImageSize canvas, uint64_t first_seed = 1) {
  DenseOutput output;
  output.options = dense_options();
  output.canvas = canvas;
  output.sizes = sizes;
  output.maps = output.options->anchors.maps(canvas);
  const auto N = std::ssize(sizes);
  for (int64_t l = 0; l < output.maps.size(); ++l) {
    const MapSize map = output.maps[l];
    for (auto [all, columns] :
         {std::pair{&output.logits, 2 * kDenseClasses}, std::pair{&output.deltas, int64_t{8}}}) {
      Tensor t = Tensor::full({N, map.height, map.width, columns}, 7);  // in the padding, where nobody looks
      for (int64_t n = 0; n < N; ++n) {
        const MapSize own = output.options->anchors.maps(sizes[static_cast<size_t>(n)])[l];
        Rng rng(first_seed + static_cast<uint64_t>(n), static_cast<uint64_t>(l * 100 + columns));
        for (int64_t y = 0; y < own.height; ++y)
          for (int64_t i = 0; i < own.width * columns; ++i)
            t.data<float>()[((n * map.height + y) * map.width) * columns + i] =
                static_cast<float>(0.5 * rng.normal());
      }
      all->push_back(Var(t, true));
    }
  }
  return output;
}

std::vector<Target> make_targets(const std::vector<ImageSize>& sizes, uint64_t first_seed = 1) {
  std::vector<Target> targets;
  for (size_t n = 0; n < sizes.size(); ++n) {
    Rng rng(first_seed + n, 77);
    Target t{.image_id = static_cast<int64_t>(first_seed + n), .file_name = "a.jpg"};
    t.original_height = 2 * sizes[n].height;
    t.original_width = 3 * sizes[n].width;
    t.height = sizes[n].height;
    t.width = sizes[n].width;
    t.frame = {2 * t.height, 2 * t.width};  // its batch was resized
    for (int64_t i = 0; i < static_cast<int64_t>((first_seed + n) % 3) * 2; ++i) {
      const double x = rng.uniform(0, 0.7), y = rng.uniform(0, 0.7);
      const Box box{x, y, x + rng.uniform(0.1, 0.3), y + rng.uniform(0.1, 0.3)};
      t.instances.push_back(
          {.label = rng.below(kDenseClasses),
           .box = scaled(box, static_cast<double>(t.frame.width), static_cast<double>(t.frame.height))});
    }
    targets.push_back(t);
  }
  return targets;
}

const std::vector<ImageSize> kImageSizes{{64, 96}, {50, 70}, {32, 96}};

// The loss takes the assignments that were made when the step was counted, once, and only for an image of the
// same size with the same objects.
TEST(RetinaNet, AssignsAnchorsOnceAStep) {
  const std::vector<Target> targets = make_targets(kImageSizes);
  const Anchors anchors({.strides = {8, 16}});
  KeptAnchorTargets kept;
  const auto first = kept.keep(anchors, targets[0], {}), second = kept.keep(anchors, targets[1], {});
  Target wider = targets[0];
  wider.width += 1;
  Target fewer = targets[1];
  fewer.instances.pop_back();
  EXPECT_NE(kept.take(anchors, wider, {}), first);
  EXPECT_NE(kept.take(anchors, fewer, {}), second);
  EXPECT_EQ(kept.take(anchors, targets[1], {}), second);
  EXPECT_EQ(kept.take(anchors, targets[0], {}), first);
  EXPECT_NE(kept.take(anchors, targets[0], {}), first);
}

TEST(RetinaNet, LossesAreTheSumsOverTheAnchorsOfEachImage) {
  const DenseOutput output = make_output(kImageSizes, {96, 96});
  const std::vector<Target> targets = make_targets(kImageSizes);
  double focal = 0, l1 = 0, positives = 0;
  for (size_t n = 0; n < kImageSizes.size(); ++n) {
    const AnchorTargets image(output.options->anchors, targets[n], {});
    positives += static_cast<double>(std::max<int64_t>(image.positives(), 1));
    for (size_t i = 0; i < image.stands.size(); ++i) {
      if (image.stands[i] == kIgnored) continue;
      const Anchors::Position at = output.options->anchors.position(image.maps, static_cast<int64_t>(i));
      auto value = [&](const Vars& maps, int64_t channel) {
        const Tensor& t = maps[static_cast<size_t>(at.level)].value();
        return static_cast<double>(
            t.data<float>()[((static_cast<int64_t>(n) * t.dim(1) + at.y) * t.dim(2) + at.x) * t.dim(3) +
                            channel]);
      };
      const Instance* object =
          image.stands[i] < 0 ? nullptr : &targets[n].instances[static_cast<size_t>(image.stands[i])];
      for (int64_t k = 0; k < kDenseClasses; ++k) {
        const double p = 1 / (1 + std::exp(-value(output.logits, at.anchor * kDenseClasses + k)));
        focal += object && object->label == k ? -0.25 * (1 - p) * (1 - p) * std::log(p)
                                              : -0.75 * p * p * std::log(1 - p);
      }
      if (!object) continue;
      const auto anchor = output.options->anchors.box(image.size, at);
      const auto deltas =
          BoxCoder().encode(anchor.data(), image.objects.data() + 4 * static_cast<size_t>(image.stands[i]));
      for (size_t d = 0; d < 4; ++d)
        l1 += std::abs(value(output.deltas, at.anchor * 4 + static_cast<int64_t>(d)) -
                       static_cast<double>(deltas[d]));
    }
  }
  EXPECT_GT(positives, 5);
  const DetectionLoss loss = dense_loss(output, targets, {});
  ASSERT_EQ(loss.parts.size(), 2U);
  EXPECT_EQ(loss.parts[0].first, "class");
  EXPECT_NEAR(loss.parts[0].second.item(), focal / positives, 1e-4 * focal / positives);
  EXPECT_EQ(loss.parts[1].first, "bbox");
  EXPECT_NEAR(loss.parts[1].second.item(), l1 / positives, 1e-4 * l1 / positives);
  EXPECT_NEAR(loss.total.value().item(), (focal + l1) / positives, 1e-4 * (focal + l1) / positives);
}

TEST(RetinaNet, PaddingChangesNothing) {
  const std::vector<Target> targets = make_targets(kImageSizes);
  const double expected = dense_loss(make_output(kImageSizes, {64, 96}), targets, {}).total.value().item();
  EXPECT_FLOAT_EQ(
      static_cast<float>(dense_loss(make_output(kImageSizes, {160, 128}), targets, {}).total.value().item()),
      static_cast<float>(expected));
  auto boxes = [&](ImageSize canvas) {
    std::vector<Box> all;
    for (const auto& image : dense_detections(make_output(kImageSizes, canvas), targets, {.nms = 0.5}))
      for (const ImageDetection& d : image) all.push_back(d.box);
    return all;
  };
  EXPECT_GT(boxes({64, 96}).size(), 50U);
  EXPECT_EQ(boxes({64, 96}), boxes({160, 128}));
}

TEST(RetinaNet, BatchesOfAStepAddUp) {
  const auto all = make_targets(kImageSizes);
  StepImages step;
  for (const Target& t : all) step.add({std::ssize(t.instances), dense_count(*dense_options(), t)});
  double sum = 0;
  for (size_t n = 0; n < kImageSizes.size(); ++n)
    sum += dense_loss(make_output({kImageSizes[n]}, {96, 96}, 1 + n), {all[n]}, step).total.value().item();
  const double whole = dense_loss(make_output(kImageSizes, {96, 96}), all, step).total.value().item();
  EXPECT_NEAR(sum, whole, 1e-5 * whole);
  EXPECT_NEAR(dense_loss(make_output(kImageSizes, {96, 96}), all, {}).total.value().item(), whole,
              1e-6 * whole);
}

TEST(RetinaNet, RefusesClassesThatItHasNot) {
  std::vector<Target> targets = make_targets(kImageSizes);
  targets[0].instances.at(0).label = kDenseClasses;
  EXPECT_THROW(dense_loss(make_output(kImageSizes, {64, 96}), targets, {}), Error);
}

// One level of 4 x 4 cells, one square anchor of 16 pixels each; all logits low.
DenseOutput one_level() {
  DenseOutput output;
  auto options = std::make_shared<DenseOptions>(
      DenseOptions{.anchors = Anchors({.strides = {8}, .scales = {2}, .ratios = {1}})});
  options->columns = 2;
  options->score_threshold = 0.1;
  output.options = options;
  output.canvas = {32, 32};
  output.sizes = {{32, 32}};
  output.maps = FeatureLevels{{4, 4}};
  output.logits = {Var(Tensor::full({1, 4, 4, 2}, -5))};
  output.deltas = {Var(Tensor::zeros({1, 4, 4, 4}))};
  return output;
}
void set_logit(DenseOutput& output, int64_t y, int64_t x, int64_t label, float logit) {
  output.logits[0].value().data<float>()[(y * 4 + x) * 2 + label] = logit;
}
std::vector<Target> image_of_32() {
  Target t{.image_id = 5, .file_name = "b.jpg", .original_height = 64, .original_width = 96};
  t.height = t.width = 32;
  t.frame = {32, 32};
  return {t};
}

// With a threshold of 0 everything counts except cells of the padding, as early in training.
TEST(RetinaNet, WithoutAThresholdTheBestAreFound) {
  DenseOutput output = one_level();
  auto options = std::make_shared<DenseOptions>(*output.options);
  EXPECT_TRUE(dense_detections(output, image_of_32(), {}).at(0).empty());
  options->score_threshold = 0;
  output.options = options;
  output.canvas = {64, 32};
  output.maps = FeatureLevels{{8, 4}};
  output.logits = {Var(Tensor::full({1, 8, 4, 2}, -5))};
  output.deltas = {Var(Tensor::zeros({1, 8, 4, 4}))};
  EXPECT_EQ(dense_detections(output, image_of_32(), {}).at(0).size(), 4u * 4 * 2);
}

TEST(RetinaNet, DetectionsAreTheBestThatDoNotOverlap) {
  DenseOutput output = one_level();
  set_logit(output, 2, 2, 0, 2);
  set_logit(output, 2, 1, 0, 1);      // (0, 8, 16, 24): overlaps the first by a third
  set_logit(output, 2, 2, 1, 0);      // of another class
  set_logit(output, 0, 0, 1, -2);     // score 0.12; half of it is outside
  set_logit(output, 3, 0, 1, -2.3f);  // score 0.091
  const PostprocessOptions options{.nms = 0.3};
  const auto found = dense_detections(output, image_of_32(), options).at(0);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-2.0)), 1e-9);
  EXPECT_EQ(found[0].box, (Box{3 * 8, 2 * 8, 3 * 24, 2 * 24}));
  EXPECT_EQ(found[0].area, 48 * 32);
  EXPECT_EQ(found[1].label, 1);
  EXPECT_EQ(found[2].box, (Box{0, 0, 24, 16}));
  EXPECT_EQ(dense_detections(output, image_of_32(), {.nms = 0.4}).at(0).size(), 4U);
  EXPECT_EQ(dense_detections(output, image_of_32(), {.max_detections = 1, .nms = 0.3}).at(0).size(), 1U);
  const auto first_class = dense_detections(output, image_of_32(), {.classes = 1}).at(0);
  ASSERT_EQ(first_class.size(), 2U);
  for (const auto& d : first_class) EXPECT_EQ(d.label, 0);
  // Only this many candidates per level are used.
  auto few = std::make_shared<DenseOptions>(*output.options);
  few->candidates = 2;
  output.options = few;
  EXPECT_EQ(dense_detections(output, image_of_32(), {}).at(0).size(), 2U);
}

TEST(RetinaNet, PredictionsThatAreNotFiniteAreNamed) {
  DenseOutput output = one_level();
  set_logit(output, 1, 1, 0, std::numeric_limits<float>::quiet_NaN());
  try {
    dense_detections(output, image_of_32(), {});
    FAIL();
  } catch (const NotFinite& error) {
    EXPECT_STREQ(error.what(), "image 5 (b.jpg): a predicted score is not finite");
  }
}

TEST(RetinaNet, ResultsAreThePartsOfThePaddedImage) {
  DenseOutput output = one_level();
  output.deltas[0].value().data<float>()[4 * 5 + 2] = std::log(0.5f);  // cell (1, 1): half as wide
  const auto results = output.results();
  ASSERT_EQ(results[0].second.shape(), (Shape{1, 16, 2}));
  const std::vector<float> boxes = results[1].second.value().to_vector<float>();
  ASSERT_EQ(boxes.size(), 64U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(boxes[i], std::vector({0.125, 0.125, 0.25, 0.25}).at(i), 1e-6);  // cut
    EXPECT_NEAR(boxes[4 * 5 + i], std::vector({0.25, 0.25, 0.25, 0.5}).at(i), 1e-6);
  }
}

TEST(CudaRetinaNet, LossesAndDetectionsAreThoseOfTheCpu) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  const std::vector<Target> targets = make_targets(kImageSizes);
  DenseOutput host = make_output(kImageSizes, {96, 128}), device = make_output(kImageSizes, {96, 128});
  for (Vars* maps : {&device.logits, &device.deltas})
    for (Var& map : *maps) map = Var(map.value().to(Device::kCuda), true);
  const DetectionLoss expected = dense_loss(host, targets, {}), got = dense_loss(device, targets, {});
  EXPECT_NEAR(got.total.value().item(), expected.total.value().item(), 1e-4 * expected.total.value().item());
  backward(expected.total);
  backward(got.total);
  for (auto [a, b] : {std::pair{&host.logits, &device.logits}, std::pair{&host.deltas, &device.deltas}})
    for (size_t l = 0; l < a->size(); ++l) {
      const auto x = (*a)[l].grad().to_vector<float>(), y = (*b)[l].grad().to_vector<float>();
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-6) << l << " " << i;
    }
  const auto found = dense_detections(host, targets, {.nms = 0.5}),
             on_device = dense_detections(device, targets, {.nms = 0.5});
  for (size_t n = 0; n < found.size(); ++n) {
    ASSERT_EQ(found[n].size(), on_device[n].size());
    for (size_t i = 0; i < found[n].size(); ++i) {
      EXPECT_EQ(found[n][i].box, on_device[n][i].box);
      EXPECT_EQ(found[n][i].query, on_device[n][i].query);
    }
  }
}

TEST(RetinaNet, HasThePublishedSize) {
  Config config = test::config_of("retinanet");
  config.mutable_model()->mutable_backbone()->set_frozen_batch_norm(false);
  config.mutable_model()->mutable_backbone()->set_frozen_statistics(true);
  ExecutionScope scope;
  execution().sketch = true;
  const auto model = build_as<Detector>(model_args(config), 80, criterion_args(config));
  EXPECT_EQ(model->parameter_count(), 37968692);
  EXPECT_LT(model->parameter_count(true), 37968692 - 200000);  // the stem and the first stage are not trained
}

// As mmdetection trains a backbone, the norms compute as in evaluation, but their weights are trained.
TEST(RetinaNet, KeepsTheStatisticsOfItsNorms) {
  Args args = test::schema_args("retinanet");
  Args& backbone = args.section("backbone");
  backbone.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  backbone.set("width", int64_t{4});
  backbone.set("frozen_batch_norm", false);
  backbone.set("frozen_statistics", true);
  args.section("retinanet").set("channels", int64_t{8});
  const auto detector = test::build_detector(args, kDenseClasses);
  detector->initialize(1);
  detector->set_training(true);
  const DetectorInput input{.images = Var(Tensor::full({1, 64, 96, 3}, 0.5)), .sizes = {}};
  const auto output = detector->forward(input);
  detector->set_training(false);
  const auto expected = detector->forward(input)->results();
  for (size_t i = 0; i < 2; ++i) {
    const auto a = output->results()[i].second.value().to_vector<float>(),
               b = expected[i].second.value().to_vector<float>();
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-5);
  }
  backward(detector->loss(*output, make_targets({{64, 96}})).total);
  for (const NamedTensor& t : detector->named_tensors()) {
    if (t.name == "backbone.layer2.0.bn1.weight") {
      EXPECT_TRUE(t.var.grad().defined());
    } else if (t.name == "backbone.layer1.0.bn1.weight") {
      EXPECT_FALSE(t.var.requires_grad());
    } else if (t.name == "backbone.layer2.0.bn1.running_mean") {
      EXPECT_EQ(t.var.value().to_vector<float>(), std::vector<float>(8));
    }
  }
  backbone.set("frozen_batch_norm", true);
  EXPECT_THROW(test::build_detector(args, kDenseClasses), InputError);
}

TEST(RetinaNet, RefusesBackbonesOfOtherStrides) {
  auto refused = [](const char* key, const Args::Value& value) {
    Args args = test::schema_args("retinanet");
    args.section("backbone").set("blocks", std::vector<int64_t>{1, 1, 1, 1});
    args.section("backbone").set(key, value);
    return input_error([&] { test::build_detector(args, kDenseClasses); });
  };
  EXPECT_EQ(refused("dilation", true),
            "model.backbone.dilation: true leaves the last map at stride 16, expected false");
  for (const std::vector<int64_t>& outputs : {std::vector<int64_t>{1, 2, 3}, {3, 4}, {1, 3, 4}})
    EXPECT_TRUE(refused("outputs", outputs).starts_with("model.backbone.outputs: stages ")) << outputs[0];
  EXPECT_EQ(refused("outputs", std::vector<int64_t>{1, 2, 3, 4}), "no error");
}

TEST(RetinaNet, StartsWithRareObjectsWhereTheAnchorsAre) {
  Args model = test::schema_args("retinanet");
  model.section("backbone").set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  model.section("backbone").set("width", int64_t{4});
  model.section("retinanet").set("channels", int64_t{8});
  const auto detector = test::build_detector(model, 2);
  detector->initialize(1);
  Rng rng(1);
  Tensor images = Tensor::empty({2, 60, 100, 3});
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  const auto output = detector->forward({.images = Var(images), .sizes = {{60, 100}, {40, 30}}});
  const auto results = output->results();
  ASSERT_EQ(results[0].second.shape(), (Shape{2, 9 * (8 * 16 + 4 * 8 + 2 * 4 + 2 + 1), 2}));
  for (float logit : results[0].second.value().to_vector<float>()) EXPECT_NEAR(logit, -4.595, 0.2);
}

}  // namespace
}  // namespace saccade
