// Compares DINO with an independent PyTorch model (scripts/golden/make_dino.py): outputs, losses with
// denoising, every parameter's gradient. The golden values were computed in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "core/tensor/execution.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"
#include "tests/test_folder.h"
#include "tests/train/golden/near_golden.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"

namespace saccade {
namespace {

const std::string kDinoFolder = SACCADE_SOURCE_DIR "/tests/golden/dino/";

std::shared_ptr<Detector> make_small_dino(const std::string& variant) {
  Args model = test::schema_args("dino");
  Args& backbone = model.section("backbone");
  backbone.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  backbone.set("width", int64_t{4});
  Args& t = model.section("transformer");
  for (auto [key, value] : std::map<std::string, int64_t>{{"hidden_dim", 16},
                                                          {"heads", 2},
                                                          {"encoder_layers", 2},
                                                          {"decoder_layers", 2},
                                                          {"ffn_dim", 24},
                                                          {"queries", 10},
                                                          {"levels", variant == "five" ? 5 : 4},
                                                          {"encoder_points", 2},
                                                          {"decoder_points", 2}})
    t.set(key, value);
  t.section("denoising").set("queries", int64_t{6});
  t.section("denoising").set("box_noise", 0.4);
  auto detector = test::build_detector(model, 5);
  SafetensorsReader weights(kDinoFolder + variant + ".weights.safetensors");
  std::map<std::string, bool> used;
  for (const NamedTensor& n : detector->named_tensors()) {
    Var v = n.var;
    v.value().copy_from(weights.read(n.name));
    used[n.name] = true;
  }
  for (const WeightEntry& e : weights.entries()) EXPECT_TRUE(used[e.name]) << "not in our model: " << e.name;
  detector->set_training(true);
  return detector;
}

class GoldenDino : public testing::TestWithParam<std::string> {};

TEST_P(GoldenDino, EqualsPyTorch) {
  auto model = make_small_dino(GetParam());
  SafetensorsReader golden(kDinoFolder + GetParam() + ".golden.safetensors");
  DetectorInput input;
  std::vector<Target> targets;
  Tensor images = golden.read("input.images");
  auto mask = golden.read("input.mask").to(DType::kI64).to_vector<int64_t>();
  const int64_t N = images.dim(0), H = images.dim(1), W = images.dim(2);
  input.images = Var(images);
  for (int64_t n = 0; n < N; ++n) {
    int64_t h = 0, w = 0;
    while (h < H && !mask[static_cast<size_t>((n * H + h) * W)]) ++h;
    while (w < W && !mask[static_cast<size_t>(n * H * W + w)]) ++w;
    input.sizes.push_back({h, w});
    Target target;
    target.image_id = 10 + n;
    const std::string prefix = fmt::format("target.{}.", n);
    test::set_objects(target, golden.read(prefix + "labels").to_vector<int64_t>(),
                      golden.read(prefix + "boxes").to_vector<float>());
    targets.push_back(std::move(target));
  }
  input.targets = &targets;
  ExecutionScope scope;
  execution().rng_key = 77;
  const SetOutput output = set_output(*model->forward(input));

  auto compare_layers = [&](const std::vector<LayerPrediction>& layers, const std::string& name) {
    Tensor logits = golden.read(name + ".logits"), boxes = golden.read(name + ".boxes");
    ASSERT_EQ(static_cast<int64_t>(layers.size()), logits.dim(0));
    for (int64_t l = 0; l < logits.dim(0); ++l) {
      expect_near_golden(layers[static_cast<size_t>(l)].logits.value(), logits.select(0, l),
                         name + " logits");
      expect_near_golden(layers[static_cast<size_t>(l)].boxes.value(), boxes.select(0, l), name + " boxes");
    }
  };
  compare_layers(output.layers, "output");
  compare_layers(output.denoising.layers, "dn");
  expect_near_golden(output.encoder.logits.value(), golden.read("enc.logits"), "proposal logits");
  expect_near_golden(output.encoder.boxes.value(), golden.read("enc.boxes"), "proposal boxes");

  const DetectionLoss loss = model->loss(output, targets);
  const std::map<std::string, double> weights{{"class", 1}, {"bbox", 5}, {"giou", 2}};
  for (const auto& [name, part] : loss.parts) {
    const double want = golden.read("loss." + name).item() * weights.at(name.substr(0, name.find('_')));
    EXPECT_NEAR(part.item(), want, 1e-4 * want) << name;
  }
  const double total = golden.read("loss.total").item();
  EXPECT_NEAR(loss.total.value().item(), total, 1e-4 * total);
  EXPECT_EQ(loss.parts.size(), 15u);

  backward(loss.total);
  double largest_gradient = 0;
  for (const WeightEntry& e : golden.entries())
    if (e.name.starts_with("grad."))
      largest_gradient = std::max(largest_gradient, largest_in(golden.read(e.name)));
  int compared = 0;
  for (const NamedTensor& n : model->named_tensors()) {
    if (n.is_buffer || !golden.find("grad." + n.name)) {
      EXPECT_FALSE(!n.is_buffer && n.var.requires_grad() && n.var.grad().defined())
          << "PyTorch has no gradient: " << n.name;
      continue;
    }
    ASSERT_TRUE(n.var.grad().defined()) << n.name;
    expect_near_golden(n.var.grad(), golden.read("grad." + n.name), "gradient of " + n.name,
                       2e-3 * largest_gradient);
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

// The weights alone tell the model, except its heads, and fill all of it.
TEST_P(GoldenDino, IsKnownByItsWeights) {
  auto file = open_weights(kDinoFolder + GetParam() + ".weights.safetensors");
  const OfficialWeights weights = official_weights(*file);
  Config given;
  apply_set(given, "model.transformer.heads=2");
  auto inferred = infer_config(*file, weights, given);
  ASSERT_TRUE(inferred.has_value());
  Config config = inferred->config;
  config.MergeFrom(given);
  EXPECT_EQ(config.model().type(), "dino");
  EXPECT_EQ(config.model().num_classes(), 5);
  EXPECT_EQ(config.model().transformer().queries(), 10);
  EXPECT_EQ(config.criterion().class_weight(), 1);
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  const InitReport report = fill_model(*file, weights, *model);
  EXPECT_TRUE(report.missing.empty() && report.skipped.empty()) << testing::PrintToString(report.lines());
}

// Official files of a DINO with a Swin have the backbone's tensors without `body`.
TEST(Dino, OfficialNamesOfASwin) {
  const Config config = parse_config(R"(model {
      type: "dino" num_classes: 5
      backbone { type: "swin" outputs: [2, 3, 4] arg { key: "embed_dim" int: 8 } arg { key: "depths" ints: [1, 1, 1, 1] }
                 arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "window" int: 4 } }
      transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 8 queries: 4 } })",
                                     "the test");
  auto build = [&](uint64_t seed) {
    auto model = build_as<Detector>(model_args(config), 5, criterion_args(config));
    model->initialize(seed);
    return model;
  };
  auto trained = build(1), fresh = build(2);
  NamedValues tensors;
  std::set<std::string> names;
  for (const NamedTensor& t : trained->named_tensors()) {
    std::string name = t.name;
    if (name.starts_with("backbone.0.body.")) name.erase(11, 5);
    tensors.emplace_back(name, t.var.value());
    names.insert(name);
  }
  for (const char* name :
       {"backbone.0.patch_embed.proj.weight", "backbone.0.norm1.weight", "backbone.0.norm3.bias",
        "backbone.0.layers.0.blocks.0.attn.relative_position_bias_table",
        "backbone.0.layers.2.downsample.reduction.weight", "transformer.tgt_embed.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  TestFolder folder;
  const std::string path = folder / "official.safetensors";
  write_safetensors(path, tensors, {});
  auto file = open_weights(path);
  const InitReport report = fill_model(*file, official_weights(*file), *fresh);
  EXPECT_TRUE(report.missing.empty() && report.skipped.empty()) << testing::PrintToString(report.lines());
  const auto want = trained->named_tensors(), got = fresh->named_tensors();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(got[i].var.value().to_vector<float>(), want[i].var.value().to_vector<float>()) << want[i].name;
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenDino, testing::Values("four", "five"),
                         [](const auto& variant) { return variant.param; });

}  // namespace
}  // namespace saccade
