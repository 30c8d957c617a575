// Tests RT-DETR: sizes, names, initial values, the folded convolutions, the position code and wrong
// configurations. tests/train/checkpoints/rt_detr_transformers_test.cpp compares it with transformers.
#include "models/rt_detr/rt_detr.h"
#include "models/detection/set_output.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "autograd/scope.h"
#include "models/build.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(x[i] - y[i])));
  return worst;
}

Tensor noise(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  init::uniform(-1, 1)(t, rng);
  return t;
}

// Gives batch norms statistics and affine parameters that do something.
void shake_norms(Module& module) {
  uint64_t seed = 0;
  for (NamedTensor& t : module.named_tensors()) {
    Rng rng(++seed);
    if (t.name.ends_with("running_var") || t.name.ends_with("norm.weight"))
      init::uniform(0.5, 1.5)(t.var.value(), rng);
    else if (t.name.ends_with("running_mean") || t.name.ends_with("norm.bias"))
      init::uniform(-0.5, 0.5)(t.var.value(), rng);
    else
      continue;
    t.var.value().bump_version();
  }
}

TEST(RtDetr, AFoldedBlockIsTheSameAndFollowsItsWeights) {
  CspRepLayer block(16, 8, 4, 3);
  block.initialize(3);
  shake_norms(block);
  block.set_training(false);
  Var x(noise({2, 9, 7, 16}, 1));
  auto folded = [&] {
    NoGrad no_grad;
    return block.forward(x).value();
  };
  Tensor plain = block.forward(x).value(), fused = folded();
  EXPECT_GT(largest_difference(plain, fused), 0);  // another order of the same sums
  EXPECT_LE(largest_difference(plain, fused), 1e-5);
  EXPECT_EQ(largest_difference(fused, folded()), 0);
  // Kept weights are computed again after a change.
  for (NamedTensor& t : block.named_tensors())
    if (t.name == "bottlenecks.1.conv2.norm.weight") t.var.value().fill(2);
  Tensor changed = folded();
  EXPECT_GT(largest_difference(fused, changed), 1e-2);
  EXPECT_LE(largest_difference(block.forward(x).value(), changed), 1e-5);
}

TEST(RtDetr, ThePositionCodeIsTransposedForRectanglesOnly) {
  Tensor square = hybrid_position_encoding({3, 3}, 8, false, Device::kCpu);
  EXPECT_EQ(largest_difference(square, hybrid_position_encoding({3, 3}, 8, true, Device::kCpu)), 0);
  // Token 5 of a map of 2 x 4 cells is (y 1, x 1); the official code takes it for (5 / 2, 5 % 2).
  for (bool transposed : {false, true}) {
    auto code = hybrid_position_encoding({2, 4}, 8, transposed, Device::kCpu).to_vector<float>();
    const double first = transposed ? 2 : 1, second = 1;
    const double expected[] = {std::sin(first),       std::sin(first / 100), std::cos(first),
                               std::cos(first / 100), std::sin(second),      std::sin(second / 100),
                               std::cos(second),      std::cos(second / 100)};
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(code[5 * 8 + i], expected[i], 1e-6) << i;
  }
}

// A level with fewer points is one whose other points have no weight; offsets in boxes count the level's own
// points.
TEST(RtDetr, LevelsMayHaveOtherNumbersOfPoints) {
  AttentionShape shape{.dim = 8, .heads = 2, .levels = 2, .points = 2};
  Args args;
  args.set("level_points", std::vector<int64_t>{2, 1});
  AttentionShape own = shape;
  own.points = 1;  // of the transformer; the layer's own numbers count
  auto few = attention_layers().find("ms_deform_attn").make(own, args);
  auto full = attention_layers().find("ms_deform_attn").make(shape, {});
  full->initialize(1);
  auto find = [](Module& module, const std::string& name) {
    for (const NamedTensor& t : module.named_tensors())
      if (t.name == name) return t.var.value();
    return Tensor();
  };
  for (const NamedTensor& t : few->named_tensors()) {
    Tensor ours = t.var.value(), theirs = find(*full, t.name);
    const bool offsets = t.name.starts_with("sampling_offsets"),
               weights = t.name.starts_with("attention_weights");
    if (!offsets && !weights) {
      ours.copy_from(theirs);
      continue;
    }
    theirs.copy_from(noise(theirs.shape(), 4));
    const int64_t numbers = offsets ? 2 : 1;  // a point's
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t point = 0; point < 3; ++point) {
        Tensor from = theirs.slice(0, (head * 4 + point) * numbers, (head * 4 + point + 1) * numbers);
        ours.slice(0, (head * 3 + point) * numbers, (head * 3 + point + 1) * numbers).copy_from(from);
        if (offsets && point == 2) from.copy_from(mul_scalar(Var(from), 2).value());
      }
      Tensor absent = theirs.slice(0, (head * 4 + 3) * numbers, (head * 4 + 4) * numbers);
      if (t.name == "attention_weights.weight") absent.fill(0);
      if (t.name == "attention_weights.bias") absent.fill(-1e9);
    }
  }
  Tensor boxes = noise({1, 3, 2, 4}, 7);
  boxes.copy_from(add_scalar(mul_scalar(Var(boxes), 0.2), 0.5).value());
  AttentionInput in{.query = Var(noise({1, 3, 8}, 5)),
                    .value = Var(noise({1, 15, 8}, 6)),
                    .reference_points = Var(boxes),
                    .levels = {{4, 3}, {1, 3}}};
  Tensor expected = full->forward(in).value();
  EXPECT_LE(largest_difference(few->forward(in).value(), expected), 1e-6);
  // At first each level's points are at the distances 1, 2, ...
  few->initialize(1);
  const float distances[] = {1, 2, 1, -1, -2, -1};
  auto start = find(*few, "sampling_offsets.bias").to_vector<float>();
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(start[2 * i], distances[i], 1e-6) << i;
}

Args rt_detr_args() {
  Args model = test::schema_args("rt_detr");
  Args& b = model.section("backbone");
  b.set("variant", std::string("d"));
  b.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  b.set("width", int64_t{8});
  b.set("frozen_batch_norm", false);
  b.set("frozen_stages", int64_t{0});
  Args& t = model.section("transformer");
  t.set("hidden_dim", int64_t{32});
  t.set("ffn_dim", int64_t{32});
  t.set("queries", int64_t{20});
  t.set("decoder_layers", int64_t{3});
  Args& hybrid = model.section("rt_detr").section("hybrid_encoder");
  hybrid.set("dim", int64_t{32});
  hybrid.set("ffn_dim", int64_t{32});
  return model;
}

TEST(RtDetr, StartsAsTheOfficialCode) {
  auto model = test::build_detector(rt_detr_args(), 7);
  model->initialize(7);
  auto find = [&](const std::string& name) { return test::values_of(*model, name); };
  for (const char* name : {"decoder.enc_score_head.bias", "decoder.dec_score_head.2.bias"})
    EXPECT_NEAR(find(name)[3], -4.59512, 1e-5) << name;
  for (const char* name : {"decoder.enc_bbox_head.layers.2.weight", "decoder.dec_bbox_head.1.layers.2.bias"})
    EXPECT_EQ(find(name)[3], 0) << name;
  EXPECT_NE(find("decoder.dec_score_head.0.weight"), find("decoder.dec_score_head.1.weight"));
}

// Images may have any size; in evaluation as many layers run as the option says, and only the last predicts.
TEST(RtDetr, RunsAtAnySizeAndStopsEarly) {
  Args args = rt_detr_args();
  args.section("rt_detr").set("eval_layers", int64_t{2});
  auto model = test::build_detector(args, 7);
  model->initialize(7);
  model->set_training(false);
  NoGrad no_grad;
  for (Shape shape : {Shape{1, 64, 64, 3}, Shape{2, 70, 101, 3}}) {
    DetectorInput input{.images = Var(noise(shape, 2)), .record_sampling = true};
    SetOutput output = set_output(*model->forward(input));
    ASSERT_EQ(output.layers.size(), 1);
    EXPECT_EQ(output.sampling.size(), 2);
    EXPECT_EQ(output.layers[0].logits.shape(), (Shape{shape[0], 20, 7}));
    for (float v : output.layers[0].boxes.value().to_vector<float>()) EXPECT_TRUE(v >= 0 && v <= 1) << v;
  }
  model->set_training(true);
  EXPECT_EQ(set_output(*model->forward({.images = Var(noise({1, 64, 64, 3}, 2))})).layers.size(), 3);
}

// A backbone may round halved odd sizes up (convolutions with padding) or down (DAT).
TEST(RtDetr, JoinsMapsThatDoNotHalveEvenly) {
  HybridEncoderOptions options{.dim = 16, .attention = {.heads = 4, .ffn_dim = 16, .encoder_layers = 1}};
  HybridEncoder encoder({8, 8, 8}, options);
  encoder.initialize(1);
  const DetectorInput input{.images = Var(noise({1, 64, 64, 3}, 2))};
  for (auto [first, second, third] : {std::array{MapSize{11, 7}, MapSize{5, 3}, MapSize{2, 1}},
                                      std::array{MapSize{11, 7}, MapSize{6, 4}, MapSize{3, 2}},
                                      std::array{MapSize{12, 4}, MapSize{6, 2}, MapSize{3, 1}}}) {
    std::vector<Var> features;
    for (MapSize size : {first, second, third})
      features.push_back(Var(noise({1, size.height, size.width, 8}, 3)));
    const std::vector<Var> maps = encoder.forward(features, input);
    for (size_t l = 0; l < 3; ++l) {
      EXPECT_EQ(maps[l].dim(1), features[l].dim(1)) << l;
      EXPECT_EQ(maps[l].dim(2), features[l].dim(2)) << l;
    }
  }
}

TEST(RtDetr, NoObjectIsNoTokensBestClass) {
  const Tensor logits = Tensor::from<float>({1, 3, 3}, {1, 2, 9, 3, 0, 0, 2, 2.5F, 0});
  EXPECT_EQ(best_tokens(logits, 2, 2).to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(best_tokens(logits, 3, 5).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
}

TEST(RtDetr, TheAttentionOfTheEncoderMaySample) {
  Args args = rt_detr_args();
  args.section("transformer").section("encoder_attention").set("type", std::string("ms_deform_attn"));
  auto model = test::build_detector(args, 7);
  model->initialize(7);
  EXPECT_EQ(set_output(*model->forward({.images = Var(noise({1, 64, 64, 3}, 2))})).layers.size(), 1);
}

TEST(RtDetr, APartOfTheChannelsIsRounded) { EXPECT_EQ(csp_channels(176, 120.0 / 176), 120); }

TEST(RtDetr, NamesTheWrongField) {
  auto expect = [](const Args& model, const std::string& text) {
    try {
      test::build_detector(model, 5);
      ADD_FAILURE() << "no error with \"" << text << "\"";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  auto with = [](const char* key, Args::Value value, const char* section = "transformer") {
    Args args = rt_detr_args();
    args.section(section).set(key, std::move(value));
    return args;
  };
  expect(with("levels", int64_t{4}), "transformer.levels: 4 levels for 3 backbone outputs");
  expect(with("eval_layers", int64_t{4}, "rt_detr"),
         "model.rt_detr.eval_layers: 4, expected at most decoder_layers (3)");
  expect(with("extra_query_groups", int64_t{1}), "transformer.extra_query_groups");
  expect(with("box_refine", true, "deformable_detr"), "model.deformable_detr: not an argument here");
  Args hybrid = rt_detr_args();
  hybrid.section("rt_detr").section("hybrid_encoder").set("dim", int64_t{30});
  expect(hybrid, "hybrid_encoder.dim: 30 must be a multiple of 4 and of heads (8)");
  Args dilation = rt_detr_args();
  dilation.section("backbone").set("dilation", true);
  expect(dilation, "backbone.dilation: variant d has none");
}

}  // namespace
}  // namespace saccade
