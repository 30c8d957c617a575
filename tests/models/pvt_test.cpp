// Tests PVT's sizes, names, initial values, bad arguments, its layer's masks, and what its weights tell.
// (Outputs and gradients: tests/train/golden/golden_vision_test.cpp.)
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "layers/attention.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/summary.h"
#include "tests/input_error.h"

namespace saccade {
namespace {

using Ints = std::vector<int64_t>;

Args pvt(const Ints& depths = {3, 4, 6, 3}) {
  Args model("model");
  model.set("type", "classifier");
  model.section("backbone").set("type", "pvt");
  model.section("backbone").set("depths", depths);
  return model;
}

Args small_backbone() {
  Args args("model.backbone");
  args.set("type", "pvt");
  args.set("depths", Ints{1, 1, 1, 1});
  args.set("dims", Ints{8, 8, 16, 16});
  args.set("heads", Ints{1, 2, 2, 2});
  args.set("mlp_ratios", Ints{2, 2, 2, 2});
  args.set("image_size", int64_t{64});
  return args;
}

TEST(Pvt, HasThePublishedSizes) {
  struct Size {
    const char* name;
    Ints depths;
    int64_t parameters;
    double gmacs;  // of the paper's Table 2, at 224 pixels
  };
  const Size kSizes[] = {{"T", {2, 2, 2, 2}, 13'229'288, 1.9},
                         {"S", {3, 4, 6, 3}, 24'485'864, 3.8},
                         {"M", {3, 4, 18, 3}, 44'208'104, 6.7},
                         {"L", {3, 8, 27, 3}, 61'369'320, 9.8}};
  for (const Size& size : kSizes) {
    auto model = build_as<Classifier>(pvt(size.depths), 1000);
    EXPECT_EQ(model->parameter_count(), size.parameters) << size.name;
    const double macs = static_cast<double>(summarize(*model, 224, 224).macs) / 1e9;
    EXPECT_NEAR(macs / size.gmacs, 1, 0.03) << size.name << ": " << macs;
  }
}

TEST(Pvt, CarriesTheOfficialNames) {
  std::set<std::string> names, body;
  for (const NamedTensor& t : build_as<Classifier>(pvt(), 7)->named_tensors()) names.insert(t.name);
  for (const NamedTensor& t : build_backbone(small_backbone(), {1, 2, 3, 4})->named_tensors())
    body.insert(t.name);
  for (const char* name : {"patch_embed1.proj.weight", "patch_embed4.norm.bias", "pos_embed1", "pos_embed4",
                           "block1.0.norm1.weight", "block1.2.attn.q.weight", "block2.3.attn.kv.bias",
                           "block3.5.attn.sr.weight", "block3.5.attn.norm.bias", "block4.2.attn.proj.weight",
                           "block4.0.mlp.fc2.bias", "norm.weight", "cls_token", "head.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("block4.0.attn.sr.weight"));
  // The detection variant.
  for (const char* name : {"norm.weight", "cls_token", "head.weight"})
    EXPECT_FALSE(body.contains(name)) << name;
}

TEST(Pvt, AsABackboneItTakesImagesOfAnySize) {
  auto model = build_backbone(small_backbone(), {1, 2, 3, 4});
  model->initialize(3);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{64, 64}, {96, 160}, {65, 31}, {1, 2}}) {
    auto maps = model->forward(Var(Tensor::full({2, height, width, 3}, 0.5)));
    ASSERT_EQ(maps.size(), 4u);
    for (size_t s = 0; s < 4; ++s) {
      const int64_t cell = int64_t{4} << s;
      EXPECT_EQ(maps[s].shape(),
                (Shape{2, (height + cell - 1) / cell, (width + cell - 1) / cell, model->channels()[s]}));
      for (double x : maps[s].value().to_vector<double>()) ASSERT_TRUE(std::isfinite(x));
    }
  }
}

TEST(Pvt, StartsAsTheOfficialCode) {
  auto model = build_as<Classifier>(pvt({2, 2, 2, 2}), 1000);
  model->initialize(3);
  for (const NamedTensor& t : model->parameters()) {
    double square = 0;
    const auto v = t.var.value().to_vector<double>();
    for (double x : v) square += x * x;
    const double deviation = std::sqrt(square / static_cast<double>(v.size()));
    if (t.name == "pos_embed1" || t.name == "block3.1.attn.kv.weight" || t.name == "head.weight") {
      EXPECT_NEAR(deviation, 0.02, 0.0003) << t.name;
    } else if (t.name == "block1.0.attn.sr.weight") {  // 8 x 8 taps of 64 channels: U(+-1/64)
      EXPECT_NEAR(deviation, 1 / (64 * std::sqrt(3.0)), 1e-4) << t.name;
    } else if (t.name == "block3.1.attn.q.bias" || t.name == "head.bias") {
      EXPECT_EQ(square, 0) << t.name;
    }
  }
}

TEST(Pvt, BadArgumentsNameTheField) {
  auto refusal = [](const char* key, const Args::Value& value, bool classifier = false) {
    Args model("model");
    model.set("type", "classifier");
    Args& args = model.section("backbone");
    args = small_backbone();
    args.set(key, value);
    return input_error([&] {
      if (classifier) {
        build_as<Classifier>(model, 3);
      } else {
        build_backbone(args, {});
      }
    });
  };
  EXPECT_EQ(refusal("reductions", Ints{8, 4, 2, 2}), "no error");
  for (const auto& [message, part] :
       {std::pair{refusal("reductions", Ints{8, 4, 2, 2}, true),
                  "model.backbone.reductions: 2 in the last stage"},
        {refusal("reductions", Ints{8, 4}), "model.backbone.reductions: [8, 4], expected 4 numbers"},
        {refusal("reductions", Ints{8, 4, 0, 1}), "model.backbone.reductions: 0 is out of range"},
        {refusal("reductions", Ints{65, 4, 2, 1}),
         "model.backbone.reductions: 65 is out of range, expected 1 to 64"},
        {refusal("heads", Ints{3, 2, 2, 2}),
         "model.backbone.heads: 3 heads in stage 1, expected a divisor of its 8"},
        {refusal("depths", Ints{}), "model.backbone.depths: 0 stages"},
        {refusal("outputs", Ints{5}), "model.backbone.outputs: [5]"},
        {refusal("window", int64_t{7}), "model.backbone.window: not an argument here"}})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
}

// Padding changes nothing, even where it shares a block with other tokens.
TEST(Pvt, ReductionHeedsTheMask) {
  for (int64_t reduction : {1, 2, 4}) {
    Args args;
    args.set("reduction", reduction);
    auto layer = attention_layers().find("spatial_reduction").make({8, 2, 1, 4, 0}, args);
    layer->initialize(7);
    const int64_t height = 5, width = 6, valid_height = 3, valid_width = 4;
    Rng rng(1);
    Tensor x = Tensor::empty({1, height * width, 8});
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
    std::vector<int64_t> padded(static_cast<size_t>(height * width));
    for (int64_t i = 0; i < height * width; ++i)
      padded[static_cast<size_t>(i)] = i / width >= valid_height || i % width >= valid_width;
    auto run = [&] {
      AttentionInput in{.query = Var(x), .key = Var(x), .value = Var(x), .levels = {{height, width}}};
      in.padding_mask = Tensor::from<int64_t>({1, height * width}, padded).to(DType::kBool);
      auto y = layer->forward(in).value().to_vector<float>();
      std::vector<float> kept;  // of the tokens that are not padding
      for (size_t i = 0; i < padded.size(); ++i)
        if (padded[i] == 0)
          kept.insert(kept.end(), y.begin() + static_cast<ptrdiff_t>(8 * i),
                      y.begin() + static_cast<ptrdiff_t>(8 * i + 8));
      return kept;
    };
    const auto before = run();
    for (int64_t i = 0; i < x.numel(); ++i)
      if (padded[static_cast<size_t>(i / 8)] != 0) x.data<float>()[i] = 1e3f;
    EXPECT_EQ(before, run()) << reduction;
  }
}

}  // namespace
}  // namespace saccade
