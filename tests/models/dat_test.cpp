// Tests DAT and DAT++ against the official parameter totals and independent PyTorch models
// (scripts/golden/make_dat.py): logits and maps at sizes that windows divide and at others, gradients of a
// training step, the losses of thirty steps.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/summary.h"
#include "tests/autograd/golden.h"

namespace saccade {
namespace {

using Ints = std::vector<int64_t>;

Args dat(const Ints& dims, const Ints& heads, const Ints& groups, const char* blocks) {
  Args model("model");
  model.set("type", "classifier");
  model.set("type", std::string("classifier"));
  Args& b = model.section("backbone");
  b.set("type", std::string("dat"));
  b.set("dims", dims);
  b.set("heads", heads);
  b.set("groups", groups);
  b.set("blocks", std::string(blocks));
  return model;
}

// All sizes have the default blocks.
Args dat_pp(const Ints& dims, const Ints& heads, const Ints& groups) {
  Args model = dat(dims, heads, groups, "ND NDND NDNDNDNDNDNDNDNDND DD");
  model.section("backbone").set("type", std::string("dat_pp"));
  return model;
}

struct Published {
  const char* name;
  Ints dims, heads, groups;
  const char* blocks;  // empty: DAT++
  int64_t parameters;
  double gmacs;  // at 224 x 224
};

class OfficialDat : public testing::TestWithParam<Published> {};

TEST_P(OfficialDat, HasThePublishedSize) {
  const Published& p = GetParam();
  const Args args = *p.blocks ? dat(p.dims, p.heads, p.groups, p.blocks) : dat_pp(p.dims, p.heads, p.groups);
  auto model = build_as<Classifier>(args, 1000);
  EXPECT_EQ(model->parameter_count(), p.parameters);
  ModelSummary summary = summarize(*model, 224, 224);
  EXPECT_NEAR(static_cast<double>(summary.macs) / 1e9, p.gmacs, 0.03 * p.gmacs);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, OfficialDat,
    testing::Values(
        Published{"T", {96, 192, 384, 768}, {3, 6, 12, 24}, {1, 1, 3, 6}, "LS LS LDLDLD LD", 28319138, 4.6},
        Published{"S",
                  {96, 192, 384, 768},
                  {3, 6, 12, 24},
                  {1, 1, 3, 6},
                  "LS LS LDLDLDLDLDLDLDLDLD LD",
                  49700402,
                  9.0},
        Published{"B",
                  {128, 256, 512, 1024},
                  {4, 8, 16, 32},
                  {1, 1, 4, 8},
                  "LS LS LDLDLDLDLDLDLDLDLD LD",
                  87881632,
                  15.8},
        Published{"P", {96, 192, 384, 768}, {3, 6, 12, 24}, {1, 1, 3, 6}, "PP PP LDLDLD LD", 30677120, 4.48},
        Published{"TPlus", {64, 128, 256, 512}, {2, 4, 8, 16}, {1, 2, 4, 8}, "", 23962876, 4.3},
        Published{"SPlus", {96, 192, 384, 768}, {3, 6, 12, 24}, {1, 2, 3, 6}, "", 53127366, 9.4},
        Published{"BPlus", {128, 256, 512, 1024}, {4, 8, 16, 32}, {2, 4, 8, 16}, "", 93690640, 16.6}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(Dat, CarriesTheOfficialNames) {
  Args model("model");
  model.set("type", "classifier");
  model.section("backbone").set("type", std::string("dat"));
  auto classifier = build_as<Classifier>(model, 7);  // the defaults are DAT-T's
  std::set<std::string> names;
  for (const NamedTensor& t : classifier->named_tensors()) names.insert(t.name);
  for (const char* name :
       {"patch_proj.0.weight", "patch_proj.1.norm.bias", "stages.0.attns.1.proj_qkv.bias",
        "stages.1.attns.0.relative_position_bias_table", "stages.2.attns.5.conv_offset.0.weight",
        "stages.2.attns.1.conv_offset.1.norm.weight", "stages.3.attns.1.conv_offset.3.weight",
        "stages.3.attns.1.proj_q.weight", "stages.3.attns.1.rpe_table",
        "stages.2.mlps.5.chunk.linear1.weight", "stages.0.mlps.0.chunk.linear2.bias",
        "stages.2.layer_norms.11.norm.weight", "down_projs.2.0.weight", "down_projs.0.1.norm.weight",
        "cls_norm.norm.weight", "cls_head.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("stages.2.attns.1.conv_offset.3.bias"));
  EXPECT_FALSE(names.contains("down_projs.0.0.bias"));
}

TEST(DatPp, CarriesTheOfficialNames) {
  Args model("model");
  model.section("backbone").set("type", std::string("dat_pp"));
  model.set("type", "classifier");
  auto classifier = build_as<Classifier>(model, 7);  // the defaults are DAT-T++'s
  std::set<std::string> names;
  for (const NamedTensor& t : classifier->named_tensors()) names.insert(t.name);
  for (const char* name : {"patch_proj.0.weight",
                           "patch_proj.1.norm.bias",
                           "patch_proj.3.bias",
                           "patch_proj.4.norm.weight",
                           "stages.0.attns.0.qkv.bias",
                           "stages.1.attns.2.rpb",
                           "stages.1.attns.0.proj.weight",
                           "stages.2.attns.17.conv_offset.0.weight",
                           "stages.2.attns.1.conv_offset.1.norm.weight",
                           "stages.3.attns.0.conv_offset.3.weight",
                           "stages.3.attns.1.rpe_table",
                           "stages.0.attns.1.proj_out.bias",
                           "stages.2.local_perception_units.17.weight",
                           "stages.0.mlps.1.linear1.0.weight",
                           "stages.0.mlps.1.linear2.0.bias",
                           "stages.3.mlps.1.dwc.bias",
                           "stages.2.layer_norms.35.norm.weight",
                           "down_projs.2.0.weight",
                           "down_projs.0.1.norm.weight",
                           "cls_norm.norm.weight",
                           "cls_head.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("down_projs.0.0.bias"));
}

TEST(Dat, StartsAsTheOfficialCode) {
  Args model("model");
  model.set("type", "classifier");
  model.section("backbone").set("type", std::string("dat"));
  auto classifier = build_as<Classifier>(model, 7);
  classifier->initialize(5);
  for (const NamedTensor& t : classifier->named_tensors()) {
    auto v = t.var.value().to_vector<float>();
    double square = 0, largest = 0;
    for (float x : v) {
      square += static_cast<double>(x) * x;
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    double deviation = std::sqrt(square / static_cast<double>(v.size()));
    // Over a thousand draws the deviation is within 10 % of its expectation (5 standard errors).
    if (t.name == "stages.2.attns.1.rpe_table" || t.name == "stages.3.attns.0.relative_position_bias_table") {
      EXPECT_NEAR(deviation, 0.01, 0.001) << t.name;
    }
    if (t.name == "stages.2.attns.1.conv_offset.0.weight") {  // a depthwise 5 x 5 kernel: U(+-1/5)
      EXPECT_LE(largest, 0.2);
      EXPECT_NEAR(deviation, 0.2 / std::sqrt(3.0), 0.01) << t.name;
    }
    if (t.name == "stages.0.attns.0.proj_qkv.weight") {
      EXPECT_NEAR(deviation, 1 / std::sqrt(96.0 * 3), 0.005) << t.name;
    }
  }
}

Args small_model(const char* blocks = "LSD LDS") {
  Args model = dat({12, 24}, {3, 6}, {1, 3}, blocks);
  Args& b = model.section("backbone");
  b.set("kernels", Ints{5, 3});
  b.set("window", int64_t{3});
  b.set("image_size", int64_t{24});
  b.set("reductions", Ints{4, 2});
  return model;
}

Args small_dat_pp(const char* blocks, int64_t window) {
  Args model = dat_pp({8, 16}, {2, 4}, {1, 2});
  Args& b = model.section("backbone");
  b.set("blocks", std::string(blocks));
  b.set("kernels", Ints{5, 3});
  b.set("strides", Ints{2, 1});
  b.set("window", window);
  b.set("image_size", int64_t{24});
  return model;
}

// A golden file and the model it is for.
struct GoldenFile {
  const char* file;
  Args (*model)();
};
constexpr GoldenFile kGoldenFiles[] = {
    {"dat/model.safetensors", [] { return small_model(); }},
    {"dat/pyramid.safetensors", [] { return small_model("PS LP"); }},
    {"dat/plus.safetensors", [] { return small_dat_pp("ND NDD", 3); }},
    {"dat/plus_wide.safetensors", [] { return small_dat_pp("N DN", 7); }},
};

void load(Module& module, const Golden& golden) {
  for (const NamedTensor& t : module.parameters()) {
    Var v = t.var;
    v.value().copy_from(golden["weight." + t.name]);
  }
}

double largest_entry(const Tensor& t) {
  double largest = 0;
  for (float x : t.to_vector<float>()) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}

double worst_difference(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.shape(), want.shape());
  auto a = got.to_vector<float>(), b = want.to_vector<float>();
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  return worst;
}

class GoldenDat : public testing::TestWithParam<const char*> {};

TEST_P(GoldenDat, LogitsAndMapsEqualPyTorch) {
  for (const auto& [file, make] : kGoldenFiles) {
    SCOPED_TRACE(file);
    Golden golden(file);
    std::string name = GetParam();
    Var images(golden[name + ".images"]);
    auto classifier = build_as<Classifier>(make(), 5);
    load(*classifier, golden);
    EXPECT_LE(worst_difference(classifier->forward(images).value(), golden[name + ".logits"]), 1e-4);

    const Args model = make();
    auto backbone = build_backbone(model.get_section("backbone"), {1, 2});
    load(*backbone, golden);
    auto maps = backbone->forward(images);
    ASSERT_EQ(maps.size(), 2u);
    EXPECT_EQ(backbone->channels(), (Ints{maps[0].dim(3), maps[1].dim(3)}));
    EXPECT_LE(worst_difference(maps[0].value(), golden[name + ".map1"]), 1e-4);
    EXPECT_LE(worst_difference(maps[1].value(), golden[name + ".map2"]), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GoldenDat, testing::Values("even", "odd"),
                         [](const auto& p) { return std::string(p.param); });

// The mean cross entropy of the golden batch.
Var loss_of(Classifier& model, const Golden& golden) {
  Var images(golden["even.images"]);
  Tensor labels = golden["train.labels"].to(DType::kI64);
  return mul_scalar(cross_entropy(model.forward(images), labels, {}),
                    1.0 / static_cast<double>(labels.dim(0)));
}

TEST(Dat, GradientsEqualPyTorch) {
  for (const auto& [file, make] : kGoldenFiles)
    for (bool recompute : {false, true}) {
      Golden golden(file);
      auto model = build_as<Classifier>(make(), 5);
      load(*model, golden);
      model->set_training(true);
      if (recompute) model->set_recompute({"stages"});
      Var loss = loss_of(*model, golden);
      EXPECT_NEAR(loss.value().item(), golden["train.loss"].item(), 1e-5);
      backward(loss);
      double largest = 0;
      for (const NamedTensor& t : model->parameters())
        largest = std::max(largest, largest_entry(golden["grad." + t.name]));
      for (const NamedTensor& t : model->parameters()) {
        Tensor want = golden["grad." + t.name];
        // The second term is for gradients that are zero by symmetry, such as the keys' bias.
        EXPECT_LE(worst_difference(t.var.grad(), want), 1e-3 * largest_entry(want) + 1e-6 * largest)
            << t.name;
      }
    }
}

TEST(Dat, ThirtyStepsEqualPyTorch) {
  for (const auto& [file, make] : kGoldenFiles) {
    Golden golden(file);
    auto model = build_as<Classifier>(make(), 5);
    load(*model, golden);
    model->set_training(true);
    auto curve = golden["curve"].to_vector<float>();
    ASSERT_EQ(curve.size(), 30u);
    for (float want : curve) {
      Var loss = loss_of(*model, golden);
      // Rounding errors of 1e-7 grow a little from step to step.
      EXPECT_NEAR(loss.value().item(), want, 1e-3 * want);
      backward(loss);
      NoGrad no_grad;
      for (const NamedTensor& t : model->parameters()) {
        Var p = t.var;
        p.value().copy_from(sub(p, mul_scalar(Var(p.grad()), 0.1)).value());
        p.clear_grad();
      }
    }
  }
}

TEST(Dat, TakesOtherAttentionLayersForItsDeformableBlocks) {
  Golden golden("dat/model.safetensors");
  for (const char* type : {"multi_head_attention", "ms_deform_attn"}) {
    Args model = small_model();
    model.section("backbone").section("attention").set("type", std::string(type));
    auto classifier = build_as<Classifier>(model, 5);
    classifier->initialize(1);
    EXPECT_EQ(classifier->forward(Var(golden["even.images"])).shape(), (Shape{4, 5})) << type;
  }
  // The switches of deformable attention change nothing else in the model.
  Args model = small_model();
  Args& attention = model.section("backbone").section("attention");
  attention.set("type", std::string("dmha"));
  attention.set("offsets", false);
  attention.set("position", std::string("none"));
  auto plain = build_as<Classifier>(model, 5), full = build_as<Classifier>(small_model(), 5);
  // Offset networks of 12 and 8 channels, tables for maps of 6 x 6 and 3 x 3 cells.
  int64_t networks = (12 * 25 + 12 + 2 * 12 + 2 * 12) + (8 * 9 + 8 + 2 * 8 + 2 * 8);
  EXPECT_EQ(full->parameter_count() - plain->parameter_count(), networks + 3 * 11 * 11 + 6 * 5 * 5);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Dat, RefusesWhatDoesNotFit) {
  auto build = [](const char* key, Args::Value value) {
    Args model = small_model();
    model.section("backbone").set(key, std::move(value));
    return message_of([&] { build_as<Classifier>(model, 5); });
  };
  EXPECT_EQ(build("window", int64_t{3}), "");
  EXPECT_NE(build("blocks", std::string("LX LD")).find("model.backbone.blocks: \"LX\""), std::string::npos);
  EXPECT_NE(build("blocks", std::string("LD")).find("model.backbone.dims: [12, 24], expected 1"),
            std::string::npos);
  EXPECT_NE(build("reductions", Ints{4}).find("model.backbone.reductions: [4], expected 2 numbers"),
            std::string::npos);
  EXPECT_NE(build("reductions", Ints{4, 0}).find("model.backbone.reductions: 0 is out of range"),
            std::string::npos);
  EXPECT_NE(build("heads", Ints{5, 6}).find("12 channels do not split into 5 heads"), std::string::npos);
  EXPECT_NE(build("groups", Ints{1, 4}).find("do not divide each other"), std::string::npos);
  EXPECT_NE(build("widow", int64_t{3}).find("model.backbone.widow"), std::string::npos);
  EXPECT_NE(build("outputs", Ints{2}).find("model.backbone.outputs"), std::string::npos);
  Args model = small_model();
  const Args& backbone = model.get_section("backbone");
  EXPECT_NE(message_of([&] { build_backbone(backbone, {2, 3}); }).find("outputs: [2, 3]"), std::string::npos);
}

}  // namespace
}  // namespace saccade
