// Compares DETR with transformers' DetrForObjectDetection and an independent PyTorch model: outputs, losses,
// every parameter's gradient and the first thirty losses of a training. scripts/golden/detr_files.py says
// what the golden files hold; make_small_detr.py writes the committed ones.
//
// Larger models: write them anywhere with scripts/golden/make_full_size.py, then
//     SACCADE_GOLDEN=FOLDER build/test_train --gtest_filter='GoldenFolder.*'
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/objects.h"
#include "train/config/config.h"
#include "train/config/options.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

const std::string kDetrFolder = SACCADE_SOURCE_DIR "/tests/golden/small_detr/";

struct GoldenDetr {
  Config config;
  std::shared_ptr<Detector> model;
};

void read_weights(const SafetensorsReader& weights, Module& model) {
  size_t found = 0;
  for (const NamedTensor& n : model.named_tensors()) {
    Var v = n.var;
    v.value().copy_from(weights.read(n.name));
    ++found;
  }
  EXPECT_EQ(found, weights.entries().size()) << weights.path() << " holds tensors that the model lacks";
}

GoldenDetr load_golden(const std::string& path) {
  SafetensorsReader weights(path + ".weights.safetensors");
  GoldenDetr golden;
  golden.config = resolve_config(parse_config(weights.metadata().at("config"), path));
  golden.model = build_as<Detector>(model_args(golden.config), golden.config.model().num_classes(),
                                    criterion_args(golden.config));
  read_weights(weights, *golden.model);
  return golden;
}

struct GoldenBatch {
  DetectorInput input;
  std::vector<Target> targets;
};

// Pixels are kept as u8: u / 64 - 2.
GoldenBatch read_batch(const SafetensorsReader& file, const std::string& inputs, const std::string& goals) {
  GoldenBatch batch;
  Tensor images = file.read(inputs + "images").to(DType::kF32);
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = images.data<float>()[i] / 64 - 2;
  Tensor mask = file.read(inputs + "mask");
  int64_t N = images.dim(0), H = images.dim(1), W = images.dim(2);
  batch.input.images = Var(images);
  for (int64_t n = 0; n < N; ++n) {
    const bool* padded = mask.data<bool>() + n * H * W;
    int64_t h = 0, w = 0;
    while (h < H && !padded[h * W]) ++h;
    while (w < W && !padded[w]) ++w;
    batch.input.sizes.push_back({h, w});
    Target target;
    target.image_id = n;
    target.height = h;
    target.width = w;
    test::set_objects(target, file.read(goals + std::to_string(n) + ".labels").to_vector<int64_t>(),
                      file.read(goals + std::to_string(n) + ".boxes").to_vector<float>());
    batch.targets.push_back(std::move(target));
  }
  return batch;
}

double largest(const Tensor& t) {
  double m = 0;
  for (double x : t.to_vector<double>()) m = std::max(m, std::abs(x));
  return m;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return std::isfinite(worst) ? worst : HUGE_VAL;
}

// Expects logits and boxes of every layer within 1e-4, absolute: what users of converted weights see.
void compare_outputs(const SetOutput& output, const SafetensorsReader& golden, const std::string& name,
                     bool say) {
  Tensor logits = golden.read("output.logits"), boxes = golden.read("output.boxes");
  ASSERT_EQ(static_cast<int64_t>(output.layers.size()), logits.dim(0));
  double logit_difference = 0, box_difference = 0;
  for (int64_t l = 0; l < logits.dim(0); ++l) {
    const LayerPrediction& layer = output.layers[static_cast<size_t>(l)];
    logit_difference =
        std::max(logit_difference, largest_difference(layer.logits.value(), logits.select(0, l)));
    box_difference = std::max(box_difference, largest_difference(layer.boxes.value(), boxes.select(0, l)));
  }
  EXPECT_LE(logit_difference, 1e-4) << name;
  EXPECT_LE(box_difference, 1e-4) << name;
  if (say)
    fmt::print("{}: logits up to {:.2f}, greatest difference {:.1e}; boxes {:.1e}\n", name, largest(logits),
               logit_difference, box_difference);
}

// Expects the backbone's maps of stages 2 to 4 to be at most twice as far from the f64 values as PyTorch's
// own f32: deep random networks amplify rounding.
void compare_features(const std::string& path, const SafetensorsReader& golden, const Var& images,
                      const std::string& name) {
  SafetensorsReader weights(path + ".weights.safetensors");
  Args model = model_args(parse_config(weights.metadata().at("config"), path));
  auto backbone = build_backbone(model.get_section("backbone"), {2, 3, 4});
  read_weights(weights, *backbone);
  std::vector<Var> maps = backbone->forward(images);
  for (int64_t stage = 2; stage <= 4; ++stage) {
    Tensor theirs = golden.read(fmt::format("feature.{}", stage));
    double difference = largest_difference(maps[static_cast<size_t>(stage - 2)].value(), theirs);
    double stray = golden.read(fmt::format("stray.feature.{}", stage)).item();
    EXPECT_LE(difference, 2 * stray) << name << ", stage " << stage;
    fmt::print("{}: stage {} up to {:.2f}, greatest difference {:.1e}, PyTorch's f32 {:.1e}\n", name, stage,
               largest(theirs), difference, stray);
  }
}

class SmallDetr : public testing::TestWithParam<std::string> {};

TEST_P(SmallDetr, EqualsPyTorch) {
  auto [config, model] = load_golden(kDetrFolder + GetParam());
  SafetensorsReader golden(kDetrFolder + GetParam() + ".golden.safetensors");
  GoldenBatch batch = read_batch(golden, "input.", "target.");
  model->set_training(true);
  SetOutput output = set_output(*model->forward(batch.input));
  compare_outputs(output, golden, GetParam(), false);
  if (!golden.find("loss.total")) return;

  DetectionLoss result = model->loss(output, batch.targets);
  double total = golden.read("loss.total").item();
  EXPECT_NEAR(result.total.value().item(), total, 1e-5 * total);
  const config::Criterion& c = config.criterion();
  for (const auto& [name, value] : result.parts) {
    double weight = name.starts_with("class")  ? c.class_weight()
                    : name.starts_with("bbox") ? c.bbox_weight()
                                               : c.giou_weight();
    double part = weight * golden.read("loss." + name).item();
    EXPECT_NEAR(value.item(), part, 1e-5 * part) << name;
  }

  // A gradient is compared with its largest value; the second term is for those that are zero by symmetry
  // (the keys' bias).
  backward(result.total);
  double largest_gradient = 0;
  for (const auto& e : golden.entries())
    if (e.name.starts_with("grad."))
      largest_gradient = std::max(largest_gradient, largest(golden.read(e.name)));
  int compared = 0;
  for (const NamedTensor& n : model->parameters()) {
    if (!golden.find("grad." + n.name)) {
      EXPECT_FALSE(n.var.requires_grad()) << "PyTorch does not train " << n.name;
      continue;
    }
    ASSERT_TRUE(n.var.grad().defined()) << n.name;
    Tensor theirs = golden.read("grad." + n.name);
    EXPECT_LE(largest_difference(n.var.grad(), theirs), 1e-4 * (largest(theirs) + 2e-3 * largest_gradient))
        << n.name;
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

INSTANTIATE_TEST_SUITE_P(Variants, SmallDetr,
                         testing::Values("sine", "learned", "dc5", "pre_norm", "anchors"),
                         [](const auto& variant) { return variant.param; });

TEST(SmallDetrTraining, FirstThirtyLossesEqualPyTorch) {
  auto [config, model] = load_golden(kDetrFolder + "sine");
  model->set_training(true);
  SafetensorsReader golden(kDetrFolder + "sine.training.safetensors");
  std::vector<GoldenBatch> batches;
  for (int b = 0; b < 4; ++b) {
    std::string prefix = "batch" + std::to_string(b) + ".";
    batches.push_back(read_batch(golden, prefix, prefix));
  }
  auto losses = golden.read("losses").to_vector<double>(),
       norms = golden.read("grad_norms").to_vector<double>();
  config::Optimizer options;
  options.set_learning_rate(5e-3);
  options.set_weight_decay(1e-4);
  options.set_clip_norm(0.1);
  Optimizer optimizer(model->parameters(), options);
  ASSERT_EQ(losses.size(), 30u);
  for (size_t step = 0; step < losses.size(); ++step) {
    const GoldenBatch& batch = batches[step % batches.size()];
    DetectionLoss result = model->loss(*model->forward(batch.input), batch.targets);
    EXPECT_NEAR(result.total.value().item(), losses[step], 1e-3 * losses[step]) << "step " << step;
    backward(result.total);
    EXPECT_NEAR(*optimizer.step(1.0).data<double>(), norms[step], 1e-2 * norms[step]) << "step " << step;
    optimizer.zero_grad();
  }
}

TEST(GoldenFolder, EqualsOtherImplementations) {
  const char* folder = std::getenv("SACCADE_GOLDEN");
  if (!folder)
    GTEST_SKIP() << "SACCADE_GOLDEN names no folder of golden files (make_full_size.py writes them)";
  const std::string suffix = ".golden.safetensors";
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string path = entry.path().string();
    if (!path.ends_with(suffix)) continue;
    std::string name = entry.path().filename().string();
    std::string stem = path.substr(0, path.size() - suffix.size());
    SafetensorsReader golden(path);
    GoldenBatch batch = read_batch(golden, "input.", "target.");
    NoGrad no_grad;
    if (golden.find("feature.4"))
      compare_features(stem, golden, batch.input.images, name);
    else
      compare_outputs(set_output(*load_golden(stem).model->forward(batch.input)), golden, name, true);
    ++compared;
  }
  EXPECT_GT(compared, 0) << folder << " holds no *" << suffix;
}

}  // namespace
}  // namespace saccade
