// Tests Swin and ViT from their arguments: sizes, costs, initial values, other attention layers in their
// blocks, and bad arguments.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/common/stages.h"
#include "models/detection/set_output.h"
#include "models/summary.h"
#include "tests/input_error.h"
#include "tests/models/schema_args.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

using Ints = std::vector<int64_t>;

Args swin_args(int64_t dim, const Ints& depths, const Ints& heads) {
  Args model("model");
  model.set("type", "classifier");
  Args& b = model.section("backbone");
  b.set("type", "swin");
  b.set("embed_dim", dim);
  b.set("depths", depths);
  b.set("heads", heads);
  return model;
}

Args vit_args(int64_t dim, int64_t heads) {
  Args model("model");
  model.set("type", "classifier");
  Args& b = model.section("backbone");
  b.set("type", "vit");
  b.set("dim", dim);
  b.set("heads", heads);
  return model;
}

// A tiny backbone of either kind.
Args tiny(const std::string& type) {
  Args args("model.backbone");
  args.set("type", type);
  args.set("heads", type == "swin" ? Args::Value(Ints{1, 2}) : Args::Value(int64_t{2}));
  if (type == "swin") {
    args.set("embed_dim", int64_t{8});
    args.set("depths", Ints{2, 2});
    args.set("window", int64_t{3});
    args.set("outputs", Ints{1, 2});
  } else {
    args.set("dim", int64_t{8});
    args.set("depth", int64_t{2});
    args.set("image_size", int64_t{32});
    args.set("patch", int64_t{8});
  }
  return args;
}

Var uniform_images(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> v(static_cast<size_t>(shape.numel()));
  for (float& x : v) x = static_cast<float>(rng.uniform(-1, 1));
  return Var(Tensor::from<float>(shape, v));
}

struct Size {
  const char* name;
  Args args;
  int64_t parameters;  // timm's total with 1000 classes
  double giga_macs;    // published, at 224 pixels; 0: not published in MACs
};

TEST(Vision, TotalsAreTimmsAndCostsArePublished) {
  const Size kSizes[] = {
      {"Swin-T", swin_args(96, {2, 2, 6, 2}, {3, 6, 12, 24}), 28'288'354, 4.5},
      {"Swin-S", swin_args(96, {2, 2, 18, 2}, {3, 6, 12, 24}), 49'606'258, 8.8},
      {"Swin-B", swin_args(128, {2, 2, 18, 2}, {4, 8, 16, 32}), 87'768'224, 15.5},
      {"Swin-L", swin_args(192, {2, 2, 18, 2}, {6, 12, 24, 48}), 196'532'476, 0},
      {"DeiT-Ti", vit_args(192, 3), 5'717'416, 0},
      {"DeiT-S", vit_args(384, 6), 22'050'664, 0},
      {"DeiT-B", vit_args(768, 12), 86'567'656, 0},
  };
  for (const Size& size : kSizes) {
    auto model = build_as<Classifier>(size.args, 1000);
    EXPECT_EQ(model->parameter_count(), size.parameters) << size.name;
    if (size.giga_macs == 0) continue;
    double macs = static_cast<double>(summarize(*model, 224, 224).macs) / 1e9;
    EXPECT_NEAR(macs / size.giga_macs, 1, 0.03) << size.name << ": " << macs;
  }
}

TEST(Vision, BlocksTakeAnyAttentionLayer) {
  struct Case {
    const char *backbone, *layer, *parameter;
  };
  const Case kCases[] = {
      {"swin", "window", "layers.0.blocks.1.attn.relative_position_bias_table"},
      {"swin", "multi_head_attention", "layers.0.blocks.1.attn.in_proj_weight"},
      {"swin", "self_attention", "layers.0.blocks.1.attn.qkv.weight"},
      {"swin", "ms_deform_attn", "layers.0.blocks.1.attn.sampling_offsets.weight"},
      {"vit", "multi_head_attention", "blocks.1.attn.out_proj.weight"},
  };
  for (const Case& c : kCases) {
    Args args = tiny(c.backbone);
    args.section("attention").set("type", c.layer);
    auto model = build_backbone(args, {});
    model->initialize(3);
    auto maps = model->forward(uniform_images({2, 32, 48, 3}, 5));
    Var loss = sum(square(maps.back()));
    backward(loss);
    bool found = false;
    for (const NamedTensor& n : model->parameters()) {
      if (n.name != c.parameter) continue;
      found = true;
      ASSERT_TRUE(n.var.grad().defined()) << n.name;
      double size = 0;
      for (double g : n.var.grad().to_vector<double>()) size += std::abs(g);
      EXPECT_GT(size, 0) << c.backbone << " " << c.layer;
    }
    EXPECT_TRUE(found) << c.backbone << " has no " << c.parameter;
  }
}

TEST(Vision, AnEncoderOfOneLevelTakesWindows) {
  Args model = test::schema_args("deformable_detr");
  model.section("backbone").set("width", int64_t{4});
  model.section("backbone").set("blocks", Ints{1, 1, 1, 1});
  Args& t = model.section("transformer");
  for (auto [key, value] : {std::pair{"hidden_dim", 16},
                            {"heads", 2},
                            {"encoder_layers", 2},
                            {"decoder_layers", 1},
                            {"ffn_dim", 32},
                            {"queries", 5},
                            {"levels", 1}})
    t.set(key, int64_t{value});
  t.section("encoder_attention").set("type", "window");
  t.section("encoder_attention").set("window", int64_t{3});
  auto detector = test::build_detector(model, 3);
  detector->initialize(4);
  auto run = [&](Var images) {
    return set_output(*detector->forward({.images = images, .sizes = {{64, 128}, {40, 70}}}))
        .layers[0]
        .logits.value();
  };
  Tensor logits = run(uniform_images({2, 64, 128, 3}, 2));
  EXPECT_EQ(logits.shape(), (Shape{2, 5, 3}));
  for (double x : logits.to_vector<double>()) EXPECT_TRUE(std::isfinite(x));
}

TEST(Vision, OnlyTheChosenStagesTakeTheLayer) {
  Args args = tiny("swin");
  args.section("attention").set("type", "self_attention");
  args.set("attention_stages", Ints{2});
  auto model = build_backbone(args, {});
  for (const NamedTensor& n : model->parameters()) {
    if (n.name.ends_with("relative_position_bias_table")) {
      EXPECT_TRUE(n.name.starts_with("layers.0.")) << n.name;
    }
  }
  EXPECT_EQ(model->forward(uniform_images({1, 24, 24, 3}, 1)).size(), 2u);
}

TEST(Vision, RecomputationGivesTheSameBitsInLessMemory) {
  for (const char* type : {"swin", "vit"}) {
    auto run = [&](bool recompute) {
      Args args = tiny(type);
      args.set("drop_path", 0.5);
      auto model = build_backbone(args, {});
      model->initialize(3);
      model->set_training(true);
      if (recompute) model->set_recompute({"blocks"});
      ExecutionScope scope;
      execution().rng_key = 9;
      int64_t before = allocator(Device::kCpu).stats().active_bytes;
      Var loss = sum(square(model->forward(uniform_images({4, 32, 32, 3}, 7)).back()));
      int64_t kept = allocator(Device::kCpu).stats().active_bytes - before;
      backward(loss);
      std::vector<float> all;
      for (const NamedTensor& n : model->parameters()) {
        if (!n.var.grad().defined()) continue;
        auto g = n.var.grad().to_vector<float>();
        all.insert(all.end(), g.begin(), g.end());
      }
      return std::pair(all, kept);
    };
    auto plain = run(false), again = run(true);
    EXPECT_EQ(plain.first, again.first) << type;
    EXPECT_LT(again.second, plain.second) << type;
  }
}

TEST(Vision, DropPathRisesFromBlockToBlock) {
  using Rates = std::vector<std::vector<double>>;
  EXPECT_EQ(drop_path_rates({2, 3}, 0.2), (Rates{{0, 0.05}, {0.1, 0.15000000000000002, 0.2}}));
  EXPECT_EQ(drop_path_rates({1}, 0.2), (Rates{{0}}));
  // If the last block is always dropped, its weights get only zero gradients.
  Args args = tiny("vit");
  args.set("drop_path", 1.0);
  auto model = build_backbone(args, {});
  model->initialize(3);
  model->set_training(true);
  backward(sum(square(model->forward(uniform_images({2, 32, 32, 3}, 5)).back())));
  for (const NamedTensor& n : model->parameters()) {
    double size = 0;
    for (double g : n.var.grad().to_vector<double>()) size += std::abs(g);
    if (n.name.starts_with("blocks.1.")) {
      EXPECT_EQ(size, 0) << n.name;
    } else if (n.name == "blocks.0.mlp.fc2.weight") {
      EXPECT_GT(size, 0) << n.name;
    }
  }
}

TEST(Vision, FirstValuesAreTheOfficialOnes) {
  auto model = build_as<Classifier>(vit_args(192, 3), 10);
  model->initialize(3);
  for (const NamedTensor& n : model->parameters()) {
    auto v = n.var.value().to_vector<double>();
    double sum = 0, square = 0;
    for (double x : v) {
      sum += x;
      square += x * x;
    }
    auto count = static_cast<double>(v.size());
    if (n.name == "pos_embed" || n.name == "blocks.3.attn.qkv.weight" || n.name == "head.weight") {
      // Four standard errors of the estimate.
      EXPECT_NEAR(std::sqrt(square / count), 0.02, 0.02 * 4 / std::sqrt(2 * count)) << n.name;
    } else if (n.name.ends_with("bias") && !n.name.starts_with("patch_embed")) {
      EXPECT_EQ(square, 0) << n.name;
    } else if (n.name.ends_with("norm1.weight")) {
      EXPECT_EQ(sum, count) << n.name;
    }
  }
}

TEST(Vision, BadArgumentsNameTheField) {
  struct Case {
    const char *type, *key;
    Args::Value value;
    const char* part;
  };
  const Case kCases[] = {
      {"swin", "heads", Ints{1}, "model.backbone.heads: got 1 numbers for 2 stages"},
      {"swin", "heads", Ints{3, 2}, "model.backbone.heads: 3 heads in stage 1, expected a divisor of its 8"},
      {"swin", "depths", Ints{2, 0}, "model.backbone.depths: 0 is out of range, expected 1 to 1024"},
      {"swin", "outputs", Ints{2, 3},
       "model.backbone.outputs: [2, 3], expected ascending stages from 1 to 2"},
      {"swin", "outputs", Ints{2, 1},
       "model.backbone.outputs: [2, 1], expected ascending stages from 1 to 2"},
      {"swin", "frozen_stages", int64_t{2}, "model.backbone.frozen_stages: not an argument here"},
      {"swin", "attention_stages", Ints{0}, "model.backbone.attention_stages: stage 0 does not exist"},
      {"swin", "drop_path", 1.5, "model.backbone.drop_path: 1.5 is out of range"},
      {"vit", "heads", int64_t{3}, "model.backbone.heads: 3 heads, expected a divisor of the 8 channels"},
      {"vit", "window", int64_t{7}, "model.backbone.window: not an argument here"},
      {"vit", "patch", int64_t{64}, "model.backbone.patch: 64 is out of range, expected 1 to 32"},
  };
  for (const Case& c : kCases) {
    Args args = tiny(c.type);
    args.set(c.key, c.value);
    EXPECT_NE(input_error([&] { build_backbone(args, {}); }).find(c.part), std::string::npos)
        << c.part << "\n"
        << input_error([&] { build_backbone(args, {}); });
  }
  // A layer of windows needs a map, and ViT's tokens are not one.
  Args args = tiny("vit");
  args.section("attention").set("type", "window");
  EXPECT_NE(input_error([&] {
              build_backbone(args, {})->forward(uniform_images({1, 16, 16, 3}, 1));
            }).find("window attention: the tokens come from 0 maps, expected one map"),
            std::string::npos);
}

// Without gradients, HGNetv2's learned affine steps are folded into the convolutions before them, unless
// their scale is negative.
TEST(HgNet, FoldedAffineStepsAreTheSame) {
  Args args = test::schema_args("d_fine");
  Args& backbone = args.section("backbone");
  backbone.set("type", "hgnet");
  backbone.set("size", "b0");
  backbone.set("lab", true);
  backbone.set("outputs", Ints{1, 2, 3, 4});
  auto model = build_backbone(backbone, {});
  model->initialize(1);
  model->set_training(false);
  Rng rng(2);
  for (float lowest : {0.5F, -1.5F}) {
    for (NamedTensor& t : model->named_tensors())
      if (t.name.ends_with("lab.scale"))
        init::uniform(lowest, 1.5)(t.var.value(), rng);
      else if (t.name.ends_with("lab.bias"))
        init::uniform(-0.5, 0.5)(t.var.value(), rng);
    for (NamedTensor& t : model->named_tensors()) t.var.value().bump_version();
    const Var images(normal_tensor({1, 64, 96, 3}, 3));
    const std::vector<Var> plain = model->forward(images);
    NoGrad no_grad;
    const std::vector<Var> folded = model->forward(images);
    for (size_t i = 0; i < plain.size(); ++i) {
      const auto a = plain[i].value().to_vector<float>(), b = folded[i].value().to_vector<float>();
      float largest = 0;
      for (float v : a) largest = std::max(largest, std::abs(v));
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-5 * largest) << i << ", element " << k;
    }
  }
}

}  // namespace
}  // namespace saccade
