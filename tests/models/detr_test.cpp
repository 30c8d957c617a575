// DETR's names, initial values and wrong configurations. Its numbers are compared with other implementations
// in tests/train/golden/golden_detr_test.cpp, its parameter counts in tests/train/config/recipes_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "autograd/scope.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/input_error.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

Args small_args() {
  Args model = test::schema_args("detr");
  Args& backbone = model.section("backbone");
  backbone.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  backbone.set("width", int64_t{8});
  Args& t = model.section("transformer");
  for (auto [key, value] : {std::pair{"hidden_dim", 32},
                            {"heads", 4},
                            {"encoder_layers", 2},
                            {"decoder_layers", 2},
                            {"ffn_dim", 64},
                            {"queries", 6}})
    t.set(key, int64_t{value});
  t.set("dropout", 0.0);
  return model;
}

Tensor normal_images(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
  return t;
}

std::vector<float> values_of(const Module& model, const std::string& name) {
  for (const NamedTensor& t : model.named_tensors())
    if (t.name == name) return t.var.value().to_vector<float>();
  ADD_FAILURE() << name;
  return {};
}

TEST(Detr, CarriesTheOfficialNames) {
  std::set<std::string> names, expected;
  for (const NamedTensor& t : test::build_detector(small_args(), 4)->named_tensors())
    if (!t.name.starts_with("backbone")) names.insert(t.name);
  auto both = [&](const std::string& name) {
    expected.insert(name + ".weight");
    expected.insert(name + ".bias");
  };
  auto attention = [&](const std::string& name) {
    expected.insert(name + ".in_proj_weight");
    expected.insert(name + ".in_proj_bias");
    both(name + ".out_proj");
  };
  for (std::string i : {"0", "1"}) {
    std::string encoder = "transformer.encoder.layers." + i, decoder = "transformer.decoder.layers." + i;
    attention(encoder + ".self_attn");
    attention(decoder + ".self_attn");
    attention(decoder + ".multihead_attn");
    for (const char* name : {".linear1", ".linear2", ".norm1", ".norm2"}) both(encoder + name);
    for (const char* name : {".linear1", ".linear2", ".norm1", ".norm2", ".norm3"}) both(decoder + name);
  }
  for (const char* name : {"transformer.decoder.norm", "class_embed", "bbox_embed.layers.0",
                           "bbox_embed.layers.1", "bbox_embed.layers.2", "input_proj"})
    both(name);
  expected.insert("query_embed.weight");
  EXPECT_EQ(names, expected);

  Args variant = small_args();
  variant.section("detr").set("pre_norm", true);
  variant.section("detr").set("position_encoding", std::string("learned"));
  std::set<std::string> more;
  for (const NamedTensor& t : test::build_detector(variant, 4)->named_tensors())
    if (!t.name.starts_with("backbone.0") && !expected.contains(t.name)) more.insert(t.name);
  EXPECT_EQ(more,
            (std::set<std::string>{"backbone.1.row_embed.weight", "backbone.1.col_embed.weight",
                                   "transformer.encoder.norm.weight", "transformer.encoder.norm.bias"}));
}

TEST(Detr, StartsAsTheOfficialCode) {
  Args args = small_args();
  args.section("transformer").set("hidden_dim", int64_t{128});
  args.section("transformer").set("queries", int64_t{100});
  auto model = test::build_detector(args, 4);
  model->initialize(3);
  // Uniform values reach almost to their bound: sqrt(6 / (fan in + fan out)) for the transformer's matrices
  // (the fused one counts as [3C, C]), 1 / sqrt(fan in) elsewhere.
  auto expect_bound = [&](const std::string& name, double bound) {
    double largest = 0;
    for (float x : values_of(*model, name)) largest = std::max<double>(largest, std::abs(x));
    EXPECT_LE(largest, bound) << name;
    EXPECT_GE(largest, 0.9 * bound) << name;
  };
  expect_bound("transformer.encoder.layers.1.self_attn.in_proj_weight", std::sqrt(6.0 / (4 * 128)));
  expect_bound("transformer.decoder.layers.0.multihead_attn.out_proj.weight", std::sqrt(6.0 / (2 * 128)));
  expect_bound("transformer.decoder.layers.1.linear1.weight", std::sqrt(6.0 / (128 + 64)));
  expect_bound("transformer.decoder.layers.1.linear1.bias", 1 / std::sqrt(128.0));
  expect_bound("input_proj.weight", 1 / std::sqrt(64.0));
  expect_bound("class_embed.weight", 1 / std::sqrt(128.0));
  expect_bound("bbox_embed.layers.2.weight", 1 / std::sqrt(128.0));
  double squares = 0;
  auto queries = values_of(*model, "query_embed.weight");
  for (float x : queries) squares += x * x;
  EXPECT_NEAR(squares / static_cast<double>(queries.size()), 1, 0.05);
  for (const char* name : {"transformer.encoder.layers.0.self_attn.in_proj_bias",
                           "transformer.decoder.layers.0.self_attn.out_proj.bias"})
    EXPECT_EQ(values_of(*model, name), std::vector<float>(values_of(*model, name).size(), 0)) << name;
}

TEST(Detr, ExtraQueryGroupsAreForTrainingOnly) {
  Args args = small_args();
  args.section("transformer").set("extra_query_groups", int64_t{2});
  auto model = test::build_detector(args, 4);
  model->initialize(6);
  DetectorInput input{.images = Var(normal_images({1, 64, 64, 3}, 3)), .sizes = {}};
  NoGrad no_grad;
  model->set_training(true);
  SetOutput training = set_output(*model->forward(input));
  EXPECT_EQ(training.query_groups, 3);
  EXPECT_EQ(training.layers[1].boxes.shape(), Shape({1, 18, 4}));
  model->set_training(false);
  SetOutput evaluation = set_output(*model->forward(input));
  EXPECT_EQ(evaluation.query_groups, 1);
  // Groups do not see each other: the first one's boxes are the same without the others.
  auto a = training.layers[1].boxes.value().slice(1, 0, 6).to_vector<float>(),
       b = evaluation.layers[1].boxes.value().to_vector<float>();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

// An attention layer that adds positions replaces the one that keeps them apart.
TEST(Detr, AnchorQueriesWithAnotherAttention) {
  Args args = small_args();
  args.section("detr").set("anchor_queries", true);
  args.section("transformer")
      .section("decoder_cross_attention")
      .set("type", std::string("multi_head_attention"));
  auto model = test::build_detector(args, 4);
  model->initialize(8);
  EXPECT_EQ(values_of(*model, "query_embed.weight").size(), 6u * 4);
  NoGrad no_grad;
  Tensor images = normal_images({1, 64, 96, 3}, 4);
  // Unlike boxes, classes depend on the anchors only through the positions.
  auto logits = [&] {
    return set_output(*model->forward({.images = Var(images), .sizes = {}})).layers.back().logits.value();
  };
  const auto before = logits().to_vector<float>();
  for (NamedTensor& t : model->named_tensors())
    if (t.name == "query_embed.weight") t.var.value().fill(-1);
  EXPECT_NE(logits().to_vector<float>(), before);
}

// Without encoder layers, equal values tell nothing about places unless the positions are in them.
TEST(Detr, PositionsInTokens) {
  for (bool in_tokens : {false, true}) {
    Args args = small_args();
    args.section("transformer").set("encoder_layers", int64_t{0});
    args.section("detr").set("position_in_tokens", in_tokens);
    auto model = test::build_detector(args, 4);
    model->initialize(8);
    NoGrad no_grad;
    model->set_training(false);
    for (NamedTensor& t : model->named_tensors())
      if (t.name == "input_proj.weight") t.var.value().fill(0);
    auto logits = [&](int64_t width) {
      return set_output(*model->forward({.images = Var(normal_images({1, 64, width, 3}, 4)), .sizes = {}}))
          .layers.back()
          .logits.value()
          .to_vector<float>();
    };
    // These are as many averages of equal values, which differ only in rounding.
    const auto narrow = logits(64), wide = logits(128);
    double largest = 0;
    for (size_t i = 0; i < narrow.size(); ++i)
      largest = std::max(largest, std::fabs(double{narrow[i]} - wide[i]));
    EXPECT_EQ(largest > 1e-4, in_tokens) << largest;
  }
}

// Trains with the losses of all layers and with that of the last alone.
TEST(Detr, AnchorsLearn) {
  for (bool aux_loss : {true, false}) {
    Args args = small_args();
    args.section("detr").set("anchor_queries", true);
    args.section("transformer").set("aux_loss", aux_loss);
    auto model = test::build_detector(args, 4);
    model->initialize(8);
    const SetOutput output =
        set_output(*model->forward({.images = Var(normal_images({1, 64, 96, 3}, 4)), .sizes = {}}));
    EXPECT_EQ(output.layers.size(), aux_loss ? 2u : 1u);
    Var loss = sum(output.layers[0].boxes);
    if (aux_loss) loss = add(loss, sum(output.layers[1].boxes));
    backward(loss);
    for (const NamedTensor& t : model->named_tensors())
      EXPECT_TRUE(t.name != "query_embed.weight" || t.var.grad().defined()) << aux_loss;
  }
}

TEST(Detr, AttentionLayersAreNamedByTheConfiguration) {
  Args args = small_args();
  args.section("transformer").section("encoder_attention").set("type", std::string("ms_deform_attn"));
  auto model = test::build_detector(args, 4);
  model->initialize(8);
  EXPECT_FALSE(values_of(*model, "transformer.encoder.layers.1.self_attn.sampling_offsets.weight").empty());
  NoGrad no_grad;
  const SetOutput output =
      set_output(*model->forward({.images = Var(normal_images({1, 64, 64, 3}, 4)), .sizes = {}}));
  EXPECT_EQ(output.layers.back().logits.shape(), Shape({1, 6, 5}));  // no object is the fifth class

  // The decoder's queries have no reference points, and their tokens are different ones.
  for (auto [place, layer] : {std::pair{"decoder_cross_attention", "ms_deform_attn"},
                              {"decoder_self_attention", "deformable_attention"},
                              {"decoder_cross_attention", "window"},
                              {"decoder_cross_attention", "self_attention"},
                              {"decoder_cross_attention", "dmha"}}) {
    Args decoder = small_args();
    decoder.section("transformer").section(place).set("type", std::string(layer));
    const std::string message = input_error([&] { test::build_detector(decoder, 4); });
    EXPECT_TRUE(message.starts_with(fmt::format("model.transformer.{}.type: {} ", place, layer))) << message;
  }
}

TEST(Detr, NamesTheWrongField) {
  auto expect = [](const std::string& key, Args::Value value, const std::string& expected) {
    Args model = small_args();
    model.section("transformer").set(key, std::move(value));
    try {
      test::build_detector(model, 5);
      ADD_FAILURE() << "no error with " << key;
    } catch (const InputError& e) {
      EXPECT_EQ(std::string(e.what()).find("model.transformer." + key + ": " + expected), 0u) << e.what();
    }
  };
  expect("levels", int64_t{4}, "4 is not used by DETR, expected 1");
  expect("querys", int64_t{5}, "not an argument here, expected one of aux_loss,");
}

// A map beyond the 50 x 50 learned positions is the user's mistake.
TEST(Detr, LearnedPositionsEndAtFiftyCells) {
  Args args = small_args();
  args.section("detr").set("position_encoding", std::string("learned"));
  auto model = test::build_detector(args, 4);
  model->initialize(9);
  NoGrad no_grad;
  EXPECT_NO_THROW(model->forward({.images = Var(Tensor::zeros({1, 32, 1600, 3})), .sizes = {}}));
  EXPECT_THROW(model->forward({.images = Var(Tensor::zeros({1, 32, 1601, 3})), .sizes = {}}), InputError);
}

}  // namespace
}  // namespace saccade
