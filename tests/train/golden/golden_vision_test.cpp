// Compares Swin, ViT, DeiT and PVT with transformers' models (scripts/golden/make_vision.py, which says what
// the files hold): logits, maps, a step's gradients, the losses of a training, and a padded batch under a
// detector. SACCADE_VISION_GOLDEN=FOLDER takes files of full size instead and prints the greatest
// differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "models/build.h"
#include "models/deformable_detr/deformable_detr.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"
#include "train/config/config.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

const char* const kOther = std::getenv("SACCADE_VISION_GOLDEN");
const std::string kVisionFolder =
    kOther ? std::string(kOther) + "/" : SACCADE_SOURCE_DIR "/tests/golden/vision/";

std::vector<std::string> file_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kVisionFolder))
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenVision : public testing::TestWithParam<std::string> {
 protected:
  GoldenVision()
      : file_(kVisionFolder + GetParam() + ".safetensors"),
        config_(parse_config("model { " + file_.metadata().at("model") + " }", "golden")) {}

  // Fills the model from the tensors w.NAME; `prefix` is what the model puts before the names.
  void load(Module& model, const std::string& prefix = "") {
    for (const NamedTensor& n : model.named_tensors()) {
      if (!n.name.starts_with(prefix)) continue;
      Var v = n.var;
      v.value().copy_from(file_.read("w." + n.name.substr(prefix.size())));
    }
  }
  std::shared_ptr<Classifier> classifier() {
    auto model = build_as<Classifier>(model_args(config_), config_.model().num_classes());
    load(*model);
    return model;
  }
  Args backbone_args(const std::vector<int64_t>& outputs) {
    Args args = model_args(config_).get_section("backbone");
    if (config_.model().backbone().type() != "vit") args.set("outputs", outputs);
    return args;
  }
  // Returns the stages that have a golden map.
  std::vector<int64_t> outputs() {
    std::vector<int64_t> stages{1};
    while (file_.find("c0.map" + std::to_string(stages.size()))) stages.push_back(stages.back() + 1);
    return stages;
  }
  Tensor images(const std::string& name) {
    NoGrad no_grad;
    Var pixels(file_.read(name + ".images").to(DType::kF32));
    return add_scalar(mul_scalar(pixels, 1.0 / 64), -2).value();
  }
  Var batch_loss(Classifier& model, const std::string& name) {
    Tensor labels = file_.read(name + ".labels");
    Var sum = cross_entropy(model.forward(Var(images(name))), labels, {});
    return mul_scalar(sum, 1.0 / static_cast<double>(labels.numel()));
  }

  SafetensorsReader file_;
  Config config_;
};

double largest_entry(const Tensor& t) {
  double m = 0;
  for (double x : t.to_vector<double>()) m = std::max(m, std::abs(x));
  return m;
}
double greatest_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double m = x.size() == y.size() ? 0 : INFINITY;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) m = std::max(m, std::abs(x[i] - y[i]));
  return m;
}
// Expects differences within 1e-4 of the largest value.
void expect_as_golden(const Tensor& ours, const Tensor& golden, const std::string& what) {
  double d = greatest_difference(ours, golden), scale = largest_entry(golden);
  EXPECT_LE(d, 1e-4 * std::max(scale, 1.0)) << what;
  if (kOther) std::printf("%s: differs by %.1e of at most %.3g\n", what.c_str(), d, scale);
}

TEST_P(GoldenVision, LogitsAndMapsEqualTransformers) {
  NoGrad no_grad;
  auto model = classifier();
  auto backbone = build_backbone(backbone_args(outputs()), {});
  load(*backbone);
  int cases = 0;
  for (; file_.find(fmt::format("c{}.images", cases)); ++cases) {
    std::string name = fmt::format("c{}", cases);
    Tensor x = images(name);
    std::string what = GetParam() + " " + x.shape().to_string();
    expect_as_golden(model->forward(Var(x)).value(), file_.read(name + ".logits"), what + " logits");
    auto maps = backbone->forward(Var(x));
    ASSERT_EQ(maps.size(), outputs().size());
    for (size_t s = 0; s < maps.size(); ++s) {
      expect_as_golden(maps[s].value(), file_.read(fmt::format("{}.map{}", name, s)),
                       fmt::format("{} map {}", what, s));
      EXPECT_EQ(backbone->channels()[s], maps[s].dim(3));
    }
  }
  EXPECT_EQ(cases, 2);
}

TEST_P(GoldenVision, GradientsEqualPyTorch) {
  if (kOther) GTEST_SKIP() << "the files of full size hold no gradients";
  auto model = classifier();
  model->set_training(true);
  Var loss = batch_loss(*model, "batch0");
  EXPECT_NEAR(loss.value().item(), file_.read("step.loss").item(), 1e-5);
  backward(loss);
  for (const NamedTensor& n : model->parameters()) {
    ASSERT_TRUE(n.var.grad().defined()) << n.name;
    Tensor golden = file_.read("grad." + n.name);
    // The keys' bias changes no attention weight, so its gradient, and with it the difference, is zero but
    // for rounding.
    EXPECT_LE(greatest_difference(n.var.grad(), golden), 1e-4 * largest_entry(golden) + 1e-7) << n.name;
  }
}

TEST_P(GoldenVision, LossesOfATrainingEqualPyTorch) {
  if (kOther) GTEST_SKIP() << "the files of full size hold no training";
  auto model = classifier();
  model->set_training(true);
  config::Optimizer options;
  options.set_learning_rate(1e-3);
  options.set_weight_decay(0.05);
  options.set_clip_norm(0);
  Optimizer optimizer(model->parameters(), options);
  auto losses = file_.read("losses").to_vector<double>();
  ASSERT_EQ(losses.size(), 30u);
  for (size_t step = 0; step < losses.size(); ++step) {
    Var loss = batch_loss(*model, fmt::format("batch{}", step % 4));
    EXPECT_NEAR(loss.value().item(), losses[step], 1e-3 * losses[step]) << "step " << step;
    backward(loss);
    optimizer.step(1.0);
    optimizer.zero_grad();
  }
}

// Returns the maps that it was made with.
class Fixed : public Backbone {
 public:
  explicit Fixed(std::vector<Var> maps) : maps_(std::move(maps)) {}
  std::vector<Var> forward(const Var&) override { return maps_; }
  std::vector<int64_t> channels() const override {
    std::vector<int64_t> out;
    for (const Var& m : maps_) out.push_back(m.dim(3));
    return out;
  }
  std::string type_name() const override { return "Fixed"; }

 private:
  std::vector<Var> maps_;
};

TEST_P(GoldenVision, APaddedBatchUnderADetectorEqualsTransformers) {
  if (!file_.find("padded.images")) GTEST_SKIP() << "this file holds no padded batch";
  NoGrad no_grad;
  DetectorInput input;
  Tensor x = images("padded");
  auto sizes = file_.read("padded.sizes").to_vector<int64_t>();
  for (size_t n = 0; n < 2; ++n) input.sizes.push_back({sizes[2 * n], sizes[2 * n + 1]});
  // Zero behind the second image, as the loader leaves it.
  x.select(0, 1).slice(0, sizes[2], x.dim(1)).fill(0);
  x.select(0, 1).slice(1, sizes[3], x.dim(2)).fill(0);
  input.images = Var(x);
  std::vector<Var> maps;
  for (int s = 0; file_.find(fmt::format("padded.map{}", s)); ++s)
    maps.emplace_back(file_.read(fmt::format("padded.map{}", s)));

  DeformableDetrOptions options;
  options.classes = 3;
  options.criterion = CriterionOptions::read(test::schema_criterion());
  options.transformer.dim = 16;
  options.transformer.heads = 2;
  options.transformer.ffn_dim = 32;
  options.transformer.encoder_layers = options.transformer.decoder_layers = 2;
  options.transformer.levels = static_cast<int64_t>(maps.size()) + 1;
  options.transformer.encoder_points = options.transformer.decoder_points = 4;
  options.transformer.dropout = 0.1;
  options.queries = 10;
  options.aux_loss = true;
  DeformableDetr expected(options, std::make_shared<Fixed>(maps));
  DeformableDetr detector(options, build_backbone(backbone_args(outputs()), {}));
  expected.initialize(5);  // every parameter's values follow from its name
  detector.initialize(5);
  load(detector, "backbone.0.body.");
  SetOutput a = set_output(*detector.forward(input)), b = set_output(*expected.forward(input));
  for (size_t l = 0; l < a.layers.size(); ++l) {
    expect_as_golden(a.layers[l].logits.value(), b.layers[l].logits.value(), "logits");
    expect_as_golden(a.layers[l].boxes.value(), b.layers[l].boxes.value(), "boxes");
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenVision, testing::ValuesIn(file_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace saccade
