// Tests Faster and Mask R-CNN: parameter counts, names, regions on the device, sampling, masks, batches.
#include "models/rcnn/rcnn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "core/tensor/execution.h"
#include "models/not_finite.h"
#include "models/rcnn/regions.h"
#include "models/rcnn/stage_loss.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

std::shared_ptr<Detector> sketch_rcnn(const char* type, bool torchvision = false) {
  ExecutionScope scope;
  execution().sketch = true;
  Args model = test::schema_args(type);
  model.section("backbone").set("frozen_batch_norm", torchvision);
  if (torchvision) model.section("rcnn").set("conventions", std::string("torchvision"));
  return test::build_detector(model, torchvision ? 91 : 80);
}

// mmdetection's counts, 80 classes, including frozen stages; torchvision's, whose norms are constants.
TEST(Rcnn, HasThePublishedParameters) {
  EXPECT_EQ(sketch_rcnn("faster_rcnn")->parameter_count(), 41753056);
  EXPECT_EQ(sketch_rcnn("mask_rcnn")->parameter_count(), 44396336);
  EXPECT_EQ(sketch_rcnn("cascade_mask_rcnn")->parameter_count(), 77324606);
  EXPECT_EQ(sketch_rcnn("faster_rcnn", true)->parameter_count(), 41755286);
  EXPECT_EQ(sketch_rcnn("mask_rcnn", true)->parameter_count(), 44401393);
}

TEST(Rcnn, CarriesTheNamesOfMmdetection) {
  std::set<std::string> names;
  for (const NamedTensor& t : sketch_rcnn("mask_rcnn")->named_tensors()) names.insert(t.name);
  for (const NamedTensor& t : sketch_rcnn("cascade_mask_rcnn")->named_tensors()) names.insert(t.name);
  for (const char* name :
       {"backbone.layer4.2.conv3.weight", "neck.lateral_convs.3.conv.bias", "neck.fpn_convs.0.conv.weight",
        "rpn_head.rpn_conv.weight", "rpn_head.rpn_cls.bias", "rpn_head.rpn_reg.weight",
        "roi_head.bbox_head.shared_fcs.1.weight", "roi_head.bbox_head.fc_cls.bias",
        "roi_head.bbox_head.fc_reg.weight", "roi_head.mask_head.convs.3.conv.weight",
        "roi_head.mask_head.upsample.weight", "roi_head.mask_head.conv_logits.bias",
        "roi_head.bbox_head.0.shared_fcs.1.weight", "roi_head.bbox_head.2.fc_reg.bias",
        "roi_head.mask_head.1.convs.3.conv.weight", "roi_head.mask_head.2.conv_logits.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
}

Var row_numbers(const Shape& shape, const std::vector<float>& values) {
  return Var(Tensor::from<float>(shape, values));
}

TEST(RcnnRegions, LeavesOutAndKeepsPlaces) {
  const Var boxes = row_numbers({1, 4, 4}, {0, 0, 10, 10, 1, 0, 11, 10, 0, 0, 10, 10, 5, 5, 5, 9});
  const Var scores = row_numbers({1, 4}, {-3, -2, 7, 1}), groups = row_numbers({1, 4}, {0, 0, 1, 1});
  const auto left = suppressed(boxes, without_flat(boxes, scores), groups, 2, 0.5).value().to_vector<float>();
  EXPECT_LT(left[0], kLeftOut);  // the second one is better
  EXPECT_EQ(left[1], -2);
  EXPECT_EQ(left[2], 7);         // another group
  EXPECT_LT(left[3], kLeftOut);  // no width
  const Var marked = row_numbers({1, 4}, left);
  EXPECT_EQ(stays(marked).value().to_vector<float>(), (std::vector<float>{0, 1, 1, 0}));
  const BestRows best = best_rows(marked, 3);
  const auto order = best.indices.to_vector<int64_t>();
  EXPECT_EQ(order[0], 2);
  EXPECT_EQ(order[1], 1);
  EXPECT_EQ(best.of(boxes).value().to_vector<float>()[4], 1);
}

Target image_of_boxes(int64_t id, ImageSize size, const std::vector<Box>& boxes) {
  Target t{.image_id = id,
           .original_height = size.height,
           .original_width = size.width,
           .height = size.height,
           .width = size.width,
           .frame = size};
  for (const Box& box : boxes)
    t.instances.push_back({.label = std::ssize(t.instances) % 3,
                           .box = box,
                           .area = box.area(),
                           .mask = std::make_shared<const Mask>(Mask::from_box(size, box))});
  return t;
}

TEST(RcnnSampling, TakesObjectsAndBackground) {
  const std::vector<Target> targets{image_of_boxes(7, {64, 64}, {{4, 4, 24, 24}, {40, 30, 60, 62}}),
                                    image_of_boxes(9, {64, 64}, {})};
  // Per image: a box near the first object, two that overlap no object, and one that was left out.
  std::vector<float> boxes, scores;
  for (int n = 0; n < 2; ++n) {
    boxes.insert(boxes.end(), {5, 5, 25, 25, 30, 0, 40, 10, 0, 40, 20, 60, 4, 4, 24, 24});
    scores.insert(scores.end(), {3, 2, 1, -1e30f});
  }
  RoiSampling options;
  options.sampler.count = 8;
  options.sampler.positives = 0.5;
  const RoiSamples s =
      sample_rois(boxes_of_images(boxes.data(), scores.data(), 2, 4), targets, 3, options, "test");
  ASSERT_EQ(s.count(), 8);  // 2 objects, 3 proposals; 3 proposals
  EXPECT_EQ(s.labels, (std::vector<int64_t>{0, 1, 0, 3, 3, 3, 3, 3}));
  EXPECT_EQ(s.images, (std::vector<int64_t>{0, 0, 0, 0, 0, 1, 1, 1}));
  ASSERT_EQ(s.objects.size(), 3u);
  EXPECT_EQ(s.objects[2].roi, 2);
  EXPECT_EQ(s.objects[2].object, 0);
  EXPECT_EQ(std::vector<float>(s.object_boxes.begin() + 8, s.object_boxes.end()),
            (std::vector<float>{4, 4, 24, 24}));
  double of_images[2] = {};
  for (size_t i = 0; i < 8; ++i) of_images[s.images[i]] += s.weights[i];
  EXPECT_NEAR(of_images[0], 1, 1e-6);
  EXPECT_NEAR(of_images[1], 1, 1e-6);
  EXPECT_NEAR(s.mask_weights[0], 1.0 / 3, 1e-6);
  // The next stage gets the moved boxes, without the objects themselves and cut to the image.
  std::vector<float> moved = s.boxes;
  for (float& corner : moved) corner += 10;
  moved[5 * 4] = NAN;
  const BoxLists next = moved_samples(s, moved.data(), {{64, 64}, {64, 64}});
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0], (std::vector<float>{15, 15, 35, 35, 40, 10, 50, 20, 10, 50, 30, 64}));
  EXPECT_EQ(next[1].size(), 8u);
}

TEST(RcnnSampling, LeavesOutAnchorsBeyondTheEdge) {
  const Anchors anchors({.strides = {16}, .scales = {1}, .ratios = {1}});  // at 0 and 16 of both axes
  const Target target = image_of_boxes(1, {32, 32}, {{0, 0, 9, 9}, {9, 9, 25, 25}});
  const MaxIouOptions options{.positive = 0.7, .negative = 0.3, .least_quality = 0.1};
  EXPECT_EQ(AnchorTargets(anchors, target, options).stands, (std::vector<int32_t>{0, -1, -1, 1}));
  EXPECT_EQ(AnchorTargets(anchors, target, options, true).stands,
            (std::vector<int32_t>{kIgnored, kIgnored, kIgnored, 1}));
}

// The targets of masks are those of RoIAlign on the mask as a map.
TEST(RcnnSampling, CutsMasksAsRoiAlignDoes) {
  const ImageSize size{50, 40};
  const std::vector<std::vector<double>> star{{5, 5, 35, 10, 20, 20, 38, 45, 3, 40, 15, 22}};
  Target target = image_of_boxes(1, size, {{3, 5, 38, 45}});
  target.instances[0].mask = std::make_shared<const Mask>(Mask::from_polygons(size, star));
  RoiSamples s;
  s.boxes = {3, 5, 38, 45, 0, 0, 40, 50, 7.3f, 9.1f, 20.6f, 48.2f, 10, 10, 13, 12, -4, 20, 60, 70};
  const int64_t R = std::ssize(s.boxes) / 4;
  for (int64_t r = 0; r < R; ++r) s.objects.push_back({r, 0, 0, false});
  const std::vector<float> got = mask_targets(s, {target}, 14);
  std::vector<float> map;
  for (uint8_t pixel : target.instances[0].mask->bitmap()) map.push_back(pixel);
  const Tensor zeros = Tensor::zeros({R}, DType::kI64);
  const std::vector<float> expected =
      roi_align({row_numbers({1, 50, 40, 1}, map)}, Tensor::from<float>({R, 4}, s.boxes), zeros, zeros,
                {.size = 14, .strides = {1}})
          .value()
          .to_vector<float>();
  ASSERT_EQ(got.size(), expected.size());
  int differ = 0;
  for (size_t i = 0; i < got.size(); ++i)
    if (std::abs(expected[i] - 0.5f) > 1e-5) differ += got[i] != (expected[i] >= 0.5f ? 1 : 0);
  EXPECT_EQ(differ, 0);
}

TEST(RcnnMasks, FillTheirBox) {
  const std::vector<float> ones(16, 1);
  const Mask mask = mask_in_box(ones.data(), 4, {2, 3, 6, 9}, {12, 10}, false);
  EXPECT_EQ(mask, Mask::from_box({12, 10}, {2, 3, 6, 9}));
  EXPECT_EQ(mask_in_box(ones.data(), 4, {-5, -5, 30, 30}, {12, 10}, false).area(), 120);
  EXPECT_EQ(mask_in_box(ones.data(), 4, {3, 3, 3, 9}, {12, 10}, false).area(), 0);
}

// Each pixel's centre is looked up in the map, which is 0 next to itself.
TEST(RcnnMasks, AreSampledAtTheCentresOfPixels) {
  constexpr int64_t kSide = 3;
  const std::vector<float> map{0.9f, 0.2f, 0.8f, 0.4f, 0.7f, 0.1f, 0.6f, 0.95f, 0.3f};
  const Box box{1.3, 2.6, 9.8, 7.9};
  const ImageSize size{10, 12};
  const std::vector<uint8_t> got = mask_in_box(map.data(), kSide, box, size, false).bitmap();
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x) {
      const double v = (static_cast<double>(y) + 0.5 - box.y1) / box.height() * kSide - 0.5;
      const double h = (static_cast<double>(x) + 0.5 - box.x1) / box.width() * kSide - 0.5;
      double sum = 0;
      for (int64_t i = 0; i < kSide; ++i)
        for (int64_t j = 0; j < kSide; ++j)
          sum += std::max(0.0, 1 - std::abs(v - static_cast<double>(i))) *
                 std::max(0.0, 1 - std::abs(h - static_cast<double>(j))) *
                 static_cast<double>(map[static_cast<size_t>(i * kSide + j)]);
      EXPECT_EQ(got[static_cast<size_t>(y * size.width + x)], sum >= 0.5) << y << ", " << x;
    }
}

Args small_rcnn_args(const std::string& type = "mask_rcnn") {
  Args model = test::schema_args(type);
  Args &backbone = model.section("backbone"), &own = model.section("rcnn");
  backbone.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  backbone.set("width", int64_t{8});
  for (const auto& [key, value] : std::vector<std::pair<std::string, int64_t>>{{"channels", 16},
                                                                               {"head_dim", 32},
                                                                               {"mask_channels", 16},
                                                                               {"mask_layers", 1},
                                                                               {"train_candidates", 60},
                                                                               {"candidates", 50},
                                                                               {"proposals", 40},
                                                                               {"rpn_samples", 32},
                                                                               {"samples", 16},
                                                                               {"detections", 10}})
    own.set(key, value);
  own.set("anchor_scale", 2.0);
  own.set("score_threshold", 0.0);
  return model;
}

Tensor region_noise(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-2, 2));
  return t;
}

struct RcnnKindCase {
  const char* type;
  size_t parts;  // of the loss
};
void PrintTo(const RcnnKindCase& kind, std::ostream* out) { *out << kind.type; }

class RcnnKinds : public testing::TestWithParam<RcnnKindCase> {};

// The losses of a step's batches add up to those of one large batch.
TEST_P(RcnnKinds, LossesOfBatchesAddUp) {
  auto model = test::build_detector(small_rcnn_args(GetParam().type), 3);
  model->initialize(3);
  model->set_training(true);
  const Tensor images = region_noise({2, 64, 96, 3}, 5);
  const std::vector<Target> targets{image_of_boxes(4, {64, 96}, {{4, 4, 24, 30}, {40, 30, 90, 62}}),
                                    image_of_boxes(2, {64, 96}, {{10, 20, 40, 50}})};
  const StepImages step(targets);
  auto parts_of = [&](int64_t begin, int64_t end) {
    const std::vector<Target> own(targets.begin() + begin, targets.begin() + end);
    DetectorInput input{.images = Var(images.slice(0, begin, end).contiguous()), .sizes = {}};
    input.targets = &own;
    const DetectionLoss loss = model->loss(*model->forward(input), own, step);
    std::vector<double> parts;
    for (const auto& [name, value] : loss.parts) parts.push_back(value.item());
    EXPECT_EQ(loss.parts.size(), GetParam().parts);
    parts.push_back(loss.total.value().item());
    return parts;
  };
  const auto both = parts_of(0, 2), first = parts_of(0, 1), second = parts_of(1, 2);
  for (size_t i = 0; i < both.size(); ++i) {
    EXPECT_GT(both[i], 0) << i;
    EXPECT_NEAR(both[i], first[i] + second[i], 1e-5 * std::abs(both[i])) << i;
  }
}

// What is prepared for a target serves only the step it was prepared for, and changes no bit of the loss.
TEST_P(RcnnKinds, PreparedTargetsChangeNothing) {
  ExecutionScope scope;
  execution().rng_key = 21;
  auto model = test::build_detector(small_rcnn_args(GetParam().type), 3);
  model->initialize(3);
  model->set_training(true);
  const std::vector<Target> targets{image_of_boxes(4, {64, 96}, {{4, 4, 24, 30}, {40, 30, 90, 62}}),
                                    image_of_boxes(2, {60, 80}, {{10, 20, 40, 50}})};
  DetectorInput input{.images = Var(region_noise({2, 64, 96, 3}, 5)), .sizes = {{64, 96}, {60, 80}}};
  input.targets = &targets;
  const auto output = model->forward(input);
  auto loss = [&] { return model->loss(*output, targets).total.value().item(); };
  const double alone = loss();
  Target smaller = targets[0], fewer = targets[0], another = targets[0];
  smaller.height -= 1;
  fewer.instances.pop_back();
  another.image_id = 5;
  for (const Target& other : {smaller, fewer, another}) model->prepare(other, 21);
  for (const Target& target : targets) model->prepare(target, 20);
  EXPECT_EQ(loss(), alone);
  for (const Target& target : targets) model->prepare(target, 21);
  EXPECT_EQ(loss(), alone);
  execution().rng_key = 20;  // for which they were prepared before
  const double next = loss();
  EXPECT_NE(next, alone);
  EXPECT_EQ(loss(), next);
}

TEST_P(RcnnKinds, EveryParameterLearns) {
  auto model = test::build_detector(small_rcnn_args(GetParam().type), 3);
  model->initialize(3);
  model->set_training(true);
  const std::vector<Target> targets{
      image_of_boxes(4, {128, 128}, {{4, 4, 24, 30}, {32, 32, 96, 96}})};  // of a coarse level
  DetectorInput input{.images = Var(region_noise({1, 128, 128, 3}, 5)), .sizes = {}};
  input.targets = &targets;
  backward(model->loss(*model->forward(input), targets).total);
  for (const NamedTensor& t : model->parameters()) {
    if (!t.var.requires_grad()) continue;
    ASSERT_TRUE(t.var.grad().defined()) << t.name;
    double size = 0;
    for (double g : t.var.grad().to_vector<double>()) size += std::abs(g);
    EXPECT_TRUE(std::isfinite(size) && size > 0) << t.name << " " << size;
  }
}

TEST_P(RcnnKinds, LearnsNothingOfNothing) {
  auto model = test::build_detector(small_rcnn_args(GetParam().type), 3);
  model->initialize(3);
  model->set_training(true);
  const std::vector<Target> targets{image_of_boxes(4, {64, 64}, {})};
  DetectorInput input{.images = Var(region_noise({1, 64, 64, 3}, 5)), .sizes = {}};
  input.targets = &targets;
  const DetectionLoss loss = model->loss(*model->forward(input), targets);
  for (const auto& [name, value] : loss.parts) {
    const bool of_objects = name == "rpn_bbox" || name.starts_with("bbox") || name.starts_with("mask");
    EXPECT_EQ(value.item() == 0, of_objects) << name;
  }
}

TEST_P(RcnnKinds, FindsWithMasksInTheOriginalImage) {
  auto model = test::build_detector(small_rcnn_args(GetParam().type), 3);
  model->initialize(3);
  model->set_training(false);
  Target target{.image_id = 1, .original_height = 128, .original_width = 160, .height = 64, .width = 80};
  DetectorInput input{.images = Var(region_noise({1, 64, 80, 3}, 6)), .sizes = {}};
  const auto output = model->forward(input);
  const auto found = model->postprocess(*output, {target}, {.max_detections = 6});
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].size(), 6u);
  double before = 1;
  for (const ImageDetection& d : found[0]) {
    EXPECT_LE(d.score, before);
    before = d.score;
    EXPECT_TRUE(d.box.x1 >= 0 && d.box.y1 >= 0 && d.box.x2 <= 160 && d.box.y2 <= 128);
    ASSERT_TRUE(d.mask);
    EXPECT_EQ(d.mask->size(), (ImageSize{128, 160}));
    EXPECT_TRUE(d.label >= 0 && d.label < 3);
  }
  const auto results = output->results();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[3].second.shape(), (Shape{1, 10, 28, 28}));
}

INSTANTIATE_TEST_SUITE_P(All, RcnnKinds,
                         testing::Values(RcnnKindCase{"mask_rcnn", 5}, RcnnKindCase{"cascade_mask_rcnn", 11}),
                         [](const auto& p) { return std::string(p.param.type); });

// The heads have norms of the batch, which see as many rows as there are regions, and boxes of each class.
TEST(Rcnn, HeadsOfConvolutionsLearn) {
  Args args = small_rcnn_args("cascade_mask_rcnn");
  Args& own = args.section("rcnn");
  own.set("head_convs", int64_t{2});
  own.set("head_layers", int64_t{1});
  own.set("class_agnostic", false);
  own.set("bbox_loss", std::string("giou"));
  auto model = test::build_detector(args, 3);
  model->initialize(3);
  model->set_training(true);
  const std::vector<Target> targets{image_of_boxes(4, {64, 64}, {{4, 4, 24, 30}, {30, 30, 60, 62}})};
  DetectorInput input{.images = Var(region_noise({1, 64, 64, 3}, 5)), .sizes = {}};
  input.targets = &targets;
  const auto output = model->forward(input);
  for (const StageOutput& stage : dynamic_cast<const RcnnOutput&>(*output).stages)
    EXPECT_EQ(stage.boxes.dim(0), stage.samples.count());
  backward(model->loss(*output, targets).total);
  for (const NamedTensor& t : model->parameters()) {
    if (!t.name.starts_with("roi_head.")) continue;
    EXPECT_TRUE(t.var.grad().defined() && is_finite(t.var.grad())) << t.name;
  }
}

// Smooth L1: half of the square divided by the limit below it, the distance less half of the limit above.
TEST(RcnnLosses, AreSmoothNearZero) {
  const Var deltas = row_numbers({2, 4}, {0, 0.05f, -0.5f, 3, 0, 0, 0, -0.2f});
  const Tensor targets = Tensor::zeros({2, 4}), weights = Tensor::from<float>({2}, std::vector{1.0f, 2.0f});
  const double smooth = 0.1, first = 0.05 * 0.05 / 2 / smooth + (0.5 - smooth / 2) + (3 - smooth / 2),
               second = 0.2 - smooth / 2;
  EXPECT_NEAR(weighted_l1(deltas, targets, weights, 3, smooth).value().item(), 3 * (first + 2 * second),
              1e-5);
  EXPECT_NEAR(weighted_l1(deltas, targets, weights, 1).value().item(), 3.55 + 2 * 0.2, 1e-5);
  const Var boxes = row_numbers({2, 4}, {0, 0, 10, 10, 2, 2, 6, 4});
  const Tensor wanted = Tensor::from<float>({2, 4}, std::vector<float>{5, 0, 15, 10, 2, 2, 6, 4});
  // Two thirds of the union are not common, and the hull is the union; the second pair is equal.
  EXPECT_NEAR(weighted_giou(boxes, wanted, weights, 1).value().item(), 2.0 / 3, 1e-5);
}

TEST(Rcnn, NeverFindsTheBackgroundThatComesFirst) {
  Args args = small_rcnn_args();
  args.section("rcnn").set("conventions", std::string("torchvision"));
  auto model = test::build_detector(args, 3);
  model->initialize(3);
  model->set_training(false);
  Target target{.image_id = 1, .original_height = 64, .original_width = 64, .height = 64, .width = 64};
  DetectorInput input{.images = Var(region_noise({1, 64, 64, 3}, 6)), .sizes = {}};
  const auto found = model->postprocess(*model->forward(input), {target}, {});
  EXPECT_GT(found[0].size(), 0u);
  for (const ImageDetection& d : found[0]) EXPECT_TRUE(d.label == 1 || d.label == 2) << d.label;
}

// Anchors of 64 pixels and more are not assigned to an object of 8 pixels.
TEST(Rcnn, AnchorsOfSeveralScalesReachFurther) {
  const std::vector<Target> targets{image_of_boxes(4, {128, 128}, {{60, 60, 68, 68}})};
  for (const bool more : {false, true}) {
    Args args = small_rcnn_args("mask_rcnn");
    args.section("rcnn").set("anchor_scale", 16.0);
    if (more) args.section("rcnn").set("more_anchor_scales", std::vector<double>{2});
    auto model = test::build_detector(args, 3);
    model->initialize(3);
    model->set_training(true);
    for (const NamedTensor& t : model->parameters()) {
      if (t.name != "rpn_head.rpn_reg.weight") continue;
      EXPECT_EQ(t.var.dim(0), more ? 24 : 12);
    }
    DetectorInput input{.images = Var(region_noise({1, 128, 128, 3}, 5)), .sizes = {}};
    input.targets = &targets;
    const DetectionLoss loss = model->loss(*model->forward(input), targets);
    for (const auto& [name, value] : loss.parts) {
      if (name != "rpn_bbox") continue;
      EXPECT_EQ(value.item() > 0, more) << value.item();
    }
  }
}

TEST(Rcnn, NamesTheWrongField) {
  Args model = test::schema_args("mask_rcnn");
  model.section("backbone").set("outputs", std::vector<int64_t>{2, 3, 4});
  try {
    test::build_detector(model, 5);
    ADD_FAILURE() << "three maps";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("model.backbone.outputs: 3 maps, expected the 4"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace saccade
