// Tests the set criterion on predictions whose losses are known or computed with plain loops.
// golden_model_test.cpp compares it with PyTorch's values.
#include "models/detection/criterion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "autograd/engine.h"
#include "core/tensor/philox.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"

namespace saccade {
namespace {

CriterionOptions defaults() { return CriterionOptions::read(test::schema_criterion()); }

constexpr const char* kClassLosses[] = {"focal", "varifocal", "softmax", "mal", "ia_bce"};

struct CriterionCase {
  SetOutput output;
  std::vector<Target> targets;
  Vars leaves;
};

LayerPrediction random_layer(Rng& rng, int64_t N, int64_t Q, int64_t K, Vars& leaves) {
  std::vector<float> logits(static_cast<size_t>(N * Q * K)), boxes(static_cast<size_t>(N * Q * 4));
  for (float& v : logits) v = static_cast<float>(rng.uniform(-3, 2));
  for (float& v : boxes) v = static_cast<float>(rng.uniform(0.2, 0.6));
  LayerPrediction p{Var(Tensor::from<float>({N, Q, K}, logits), true),
                    Var(Tensor::from<float>({N, Q, 4}, boxes), true)};
  leaves.push_back(p.logits);
  leaves.push_back(p.boxes);
  return p;
}

CriterionCase random_case(uint64_t seed, int64_t Q, int64_t K, const std::vector<int>& objects,
                          int layers = 2, bool encoder = false) {
  Rng rng(seed);
  CriterionCase c;
  auto N = static_cast<int64_t>(objects.size());
  for (int l = 0; l < layers; ++l) c.output.layers.push_back(random_layer(rng, N, Q, K, c.leaves));
  if (encoder) c.output.encoder = random_layer(rng, N, 4 * Q, K, c.leaves);
  for (size_t n = 0; n < objects.size(); ++n) {
    Target t;
    t.image_id = static_cast<int64_t>(n) + 1;
    for (int i = 0; i < objects[n]; ++i) {
      const int64_t label = rng.below(K - 1);
      std::array<float, 4> box;
      for (float& v : box) v = static_cast<float>(rng.uniform(0.2, 0.6));
      test::add_object(t, label, box);
    }
    c.targets.push_back(t);
  }
  return c;
}

std::map<std::string, double> parts_of(const DetectionLoss& r) {
  std::map<std::string, double> parts;
  for (const auto& [name, value] : r.parts) parts[name] = value.item();
  return parts;
}

TEST(Criterion, PartsSumToTheTotal) {
  for (const char* kind : kClassLosses) {
    CriterionCase c = random_case(1, 6, 5, {2, 0, 3}, 3, kind != std::string("softmax"));
    CriterionOptions o = defaults();
    o.class_loss = kind;
    DetectionLoss r = SetCriterion(o).forward(c.output, c.targets);
    double sum = 0;
    for (auto& [name, value] : parts_of(r)) {
      EXPECT_TRUE(std::isfinite(value)) << name;
      sum += value;
    }
    EXPECT_NEAR(r.total.value().item(), sum, 1e-5 * sum);
    EXPECT_EQ(r.parts.size(), c.output.encoder.logits.defined() ? 12u : 9u);
    EXPECT_TRUE(parts_of(r).contains("giou_1"));
    backward(r.total);
    for (const Var& leaf : c.leaves) {
      ASSERT_TRUE(leaf.grad().defined());
      for (double g : leaf.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
    }
  }
}

TEST(Criterion, KnownValues) {
  CriterionCase c = random_case(2, 2, 2, {1}, 1);
  // Query 1 is right: logit 0 (score one half), box off by 0.1 in cx. Query 0 is far away and sure that
  // nothing is there.
  c.output.layers[0].logits.value().copy_from(
      Tensor::from<float>({1, 2, 2}, std::vector<float>{-50, -50, 0, -50}));
  c.output.layers[0].boxes.value().copy_from(
      Tensor::from<float>({1, 2, 4}, std::vector<float>{0.9f, 0.9f, 0.1f, 0.1f, 0.5f, 0.3f, 0.2f, 0.2f}));
  test::set_objects(c.targets[0], {0}, {0.4f, 0.3f, 0.2f, 0.2f});
  DetectionLoss r = SetCriterion(defaults()).forward(c.output, c.targets);
  auto parts = parts_of(r);
  EXPECT_NEAR(parts.at("class"), 2 * 0.25 * 0.25 * std::log(2.0), 1e-6);
  EXPECT_NEAR(parts.at("bbox"), 5 * 0.1, 1e-6);
  EXPECT_NEAR(parts.at("giou"), 2 * (1 - 1.0 / 3), 1e-5);  // half of each box overlaps; the hull is the union
  // With twice as many objects to divide by, all halve.
  StepImages step(c.targets);
  step.add({1, 1});
  EXPECT_NEAR(SetCriterion(defaults()).forward(c.output, c.targets, step).total.value().item(),
              r.total.value().item() / 2, 1e-6);
  ASSERT_EQ(r.metrics.size(), 2u);
  EXPECT_EQ(r.metrics[0].name, "class_error");
  EXPECT_EQ(r.metrics[0].value(), 0);
  EXPECT_EQ(r.metrics[1].name, "cardinality_error");
  EXPECT_EQ(r.metrics[1].value(), 1);  // score 0.5 is not over
  c.targets[0].instances[0].label = 1;
  EXPECT_EQ(SetCriterion(defaults()).forward(c.output, c.targets).metrics[0].value(), 100);
  c.output.layers[0].logits.value().copy_from(
      Tensor::from<float>({1, 2, 2}, std::vector<float>{-50, -50, -50, 0}));
  EXPECT_EQ(SetCriterion(defaults()).forward(c.output, c.targets).metrics[0].value(), 0);
}

TEST(Criterion, BatchesWithoutObjects) {
  for (const char* kind : kClassLosses) {
    CriterionOptions o = defaults();
    o.class_loss = kind;
    CriterionCase c = random_case(3, 4, 3, {0, 0});
    DetectionLoss r = SetCriterion(o).forward(c.output, c.targets);
    auto parts = parts_of(r);
    EXPECT_GT(parts.at("class"), 0);
    EXPECT_EQ(parts.at("bbox"), 0);
    EXPECT_EQ(parts.at("giou"), 0);
    backward(r.total);
    double largest = 0;
    for (double g : c.leaves[0].grad().to_vector<double>()) largest = std::max(largest, std::abs(g));
    EXPECT_GT(largest, 0);  // background is learnt
    for (double g : c.leaves[1].grad().to_vector<double>()) EXPECT_EQ(g, 0);

    CriterionCase empty = random_case(4, 4, 3, {});
    r = SetCriterion(o).forward(empty.output, {});
    EXPECT_EQ(r.total.value().item(), 0);
    backward(r.total);
  }
}

TEST(Criterion, EqualGroupsHaveTheLossOfOne) {
  CriterionCase one = random_case(5, 5, 3, {2, 1}, 1), three = random_case(5, 5, 3, {2, 1}, 1);
  LayerPrediction& p = three.output.layers[0];
  p.logits = concat({p.logits, p.logits, p.logits}, 1);
  p.boxes = concat({p.boxes, p.boxes, p.boxes}, 1);
  three.output.query_groups = 3;
  double expected = SetCriterion(defaults()).forward(one.output, one.targets).total.value().item();
  DetectionLoss r = SetCriterion(defaults()).forward(three.output, three.targets);
  EXPECT_NEAR(r.total.value().item(), expected, 1e-5 * expected);
  const MeanMetrics alone = SetCriterion(defaults()).forward(one.output, one.targets).metrics;
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(r.metrics.at(i).value(), alone[i].value());
}

TEST(Criterion, RepeatedObjectsScaleTheDivisor) {
  // Four queries on the object in the second group, all matched: the box losses are those of one pair.
  CriterionCase c = random_case(6, 8, 2, {1}, 1);
  std::vector<float> boxes;
  for (int q = 0; q < 8; ++q) boxes.insert(boxes.end(), {0.5f, 0.3f, 0.2f, 0.2f});
  c.output.layers[0].boxes.value().copy_from(Tensor::from<float>({1, 8, 4}, boxes));
  test::set_objects(c.targets[0], {0}, {0.4f, 0.3f, 0.2f, 0.2f});
  c.output.query_groups = 2;
  CriterionOptions o = defaults();
  o.extra_group_repeat = 4;
  auto parts = parts_of(SetCriterion(o).forward(c.output, c.targets));
  EXPECT_NEAR(parts.at("bbox"), 5 * 0.1, 1e-6);
  EXPECT_NEAR(parts.at("giou"), 2 * (1 - 1.0 / 3), 1e-5);
}

// The denoising queries answer objects without matching; their losses are divided by how often each object is
// asked for.
TEST(Criterion, Denoising) {
  for (const char* kind : kClassLosses) {
    CriterionCase c = random_case(9, 4, 3, {1, 0}, 2);
    CriterionOptions o = defaults();
    o.class_loss = kind;
    const auto without = parts_of(SetCriterion(o).forward(c.output, c.targets));
    // The queries 0 and 2 of the first image are near, 1 and 3 far.
    c.output.denoising = {.layers = c.output.layers, .pairs = {{0, 0, 0}, {0, 2, 0}}, .groups = 2};
    const DetectionLoss r = SetCriterion(o).forward(c.output, c.targets);
    const auto parts = parts_of(r);
    EXPECT_EQ(parts.size(), 12u);
    for (const auto& [name, value] : without) EXPECT_EQ(parts.at(name), value) << name;
    double distance = 0;
    auto boxes = c.output.layers[0].boxes.value().to_vector<float>();
    const Objects objects(c.targets);
    for (size_t query : {0, 2})
      for (size_t k = 0; k < 4; ++k) distance += std::abs(boxes[4 * query + k] - objects.boxes[k]);
    EXPECT_NEAR(parts.at("bbox_dn_0"), 5 * distance / 2, 1e-5);
    backward(r.total);
    o.aux = false;
    EXPECT_EQ(SetCriterion(o).forward(c.output, c.targets).parts.size(), 6u);
  }
}

// Returns the images [begin, end) of a case, with leaves of their own.
CriterionCase part_of(const CriterionCase& whole, int64_t begin, int64_t end) {
  CriterionCase part;
  auto cut = [&](const Var& v) {
    if (!v.defined()) return v;
    part.leaves.emplace_back(v.value().slice(0, begin, end).clone(), true);
    return part.leaves.back();
  };
  auto cut_layer = [&](const LayerPrediction& p) { return LayerPrediction{cut(p.logits), cut(p.boxes)}; };
  for (const LayerPrediction& p : whole.output.layers) part.output.layers.push_back(cut_layer(p));
  part.output.encoder = cut_layer(whole.output.encoder);
  for (const LayerPrediction& p : whole.output.denoising.layers)
    part.output.denoising.layers.push_back(cut_layer(p));
  part.output.denoising.groups = whole.output.denoising.groups;
  for (const MatchedPair& m : whole.output.denoising.pairs)
    if (m.image >= begin && m.image < end)
      part.output.denoising.pairs.push_back({m.image - begin, m.query, m.object});
  part.output.query_groups = whole.output.query_groups;
  part.output.encoder_classes = whole.output.encoder_classes;
  part.targets.assign(whole.targets.begin() + begin, whole.targets.begin() + end);
  return part;
}

// However the images of a step are cut into batches, the losses, every part, the gradients and the means are
// the same. 6 queries in two groups and 12 proposals are fewer than some image has objects (with repeats).
TEST(Criterion, BatchesOfAStepAddUpToOne) {
  for (const auto& [kind, spec] : class_losses().all()) {
    SCOPED_TRACE(kind);
    CriterionOptions o = defaults();
    o.class_loss = kind;
    o.extra_group_repeat = 2;
    CriterionCase whole = random_case(11, 6, 4, {5, 0, 1, 13}, 2, true);
    whole.output.query_groups = 2;
    whole.output.encoder_classes = true;
    Rng rng(12);
    DenoisingOutput& dn = whole.output.denoising;
    dn.groups = 2;
    for (int l = 0; l < 2; ++l) dn.layers.push_back(random_layer(rng, 4, 2 * 2 * 13, 4, whole.leaves));
    for (int64_t n = 0; n < 4; ++n)
      for (int64_t g = 0; g < 2; ++g)
        for (int64_t i = 0; i < std::ssize(whole.targets[static_cast<size_t>(n)].instances); ++i)
          dn.pairs.push_back({n, g * 26 + i, i});
    whole = part_of(whole, 0, 4);  // leaves in the order of its parts
    const DetectionLoss expected = SetCriterion(o).forward(whole.output, whole.targets);
    backward(expected.total);
    const StepImages step(whole.targets);
    for (const std::vector<int64_t>& cuts :
         std::vector<std::vector<int64_t>>{{0, 2, 4}, {0, 1, 2, 3, 4}, {0, 1, 4}}) {
      std::map<std::string, double> parts;
      MeanMetrics means;
      for (size_t b = 0; b + 1 < cuts.size(); ++b) {
        CriterionCase part = part_of(whole, cuts[b], cuts[b + 1]);
        const DetectionLoss loss = SetCriterion(o).forward(part.output, part.targets, step);
        for (const auto& [name, value] : parts_of(loss)) parts[name] += value;
        for (const MeanMetric& m : loss.metrics) add_to(means, m);
        backward(loss.total);
        ASSERT_EQ(part.leaves.size(), whole.leaves.size());
        for (size_t i = 0; i < part.leaves.size(); ++i) {
          const auto own = part.leaves[i].grad().to_vector<float>();
          const auto of_all =
              whole.leaves[i].grad().slice(0, cuts[b], cuts[b + 1]).clone().to_vector<float>();
          ASSERT_EQ(own.size(), of_all.size());
          for (size_t k = 0; k < own.size(); ++k)
            EXPECT_NEAR(own[k], of_all[k], 1e-6 + 1e-5 * std::abs(of_all[k]));
        }
      }
      for (const auto& [name, value] : parts_of(expected))
        EXPECT_NEAR(parts.at(name), value, 1e-5 * value) << name;
      for (size_t i = 0; i < means.size(); ++i)
        EXPECT_NEAR(means[i].value(), expected.metrics.at(i).value(), 1e-9) << means[i].name;
    }
  }
}

// Proposals with all classes are matched by their classes.
TEST(Criterion, ProposalsWithClasses) {
  CriterionCase c = random_case(10, 4, 3, {2}, 1, true);
  c.output.encoder = c.output.layers[0];
  c.output.encoder_classes = true;
  const auto parts = parts_of(SetCriterion(defaults()).forward(c.output, c.targets));
  for (const char* name : {"class", "bbox", "giou"})
    EXPECT_EQ(parts.at(name + std::string("_enc")), parts.at(name)) << name;
}

TEST(Criterion, AuxiliaryLossesCanBeLeftOut) {
  CriterionCase c = random_case(7, 4, 3, {1}, 3);
  CriterionOptions o = defaults();
  o.aux = false;
  EXPECT_EQ(SetCriterion(o).forward(c.output, c.targets).parts.size(), 3u);
}

TEST(Criterion, BrokenPredictionsMakeTheLossNan) {
  CriterionCase c = random_case(8, 6, 3, {1, 1}, 2);
  // One query among many: the assignment avoids it, the loss must show it nevertheless.
  c.output.layers[0].boxes.value().data<float>()[6 * 4 + 3] = std::nanf("");
  DetectionLoss r = SetCriterion(defaults()).forward(c.output, c.targets);
  EXPECT_TRUE(std::isnan(r.total.value().item()));
  ASSERT_EQ(r.problems.size(), 1u);
  EXPECT_EQ(r.problems[0], "image 2, layer 0: the predicted box of query 0 is not finite");
  EXPECT_EQ(r.bad_images, std::vector<int64_t>{2});
}

}  // namespace
}  // namespace saccade
