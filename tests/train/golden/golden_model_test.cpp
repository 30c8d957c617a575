// Compares the whole model with an independent PyTorch model (scripts/golden/): outputs, losses, every
// parameter's gradient, and the first fifty losses of a training. The golden values were computed in f64; the
// head of scripts/golden/make_small_deformable_detr.py describes the files, and why the gradients' tolerance
// has a second term.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"
#include "tests/train/golden/near_golden.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

const std::string kModelFolder = SACCADE_SOURCE_DIR "/tests/golden/small_deformable_detr/";
constexpr int64_t kClasses = 5;

std::shared_ptr<Detector> make_model(const std::string& variant) {
  Args model = test::schema_args("deformable_detr");
  Args& backbone = model.section("backbone");
  const bool dc5 = variant == "dc5", refines = variant == "refine" || variant == "two_stage";
  backbone.set("blocks", std::vector<int64_t>{2, 1, 1, dc5 ? 2 : 1});
  backbone.set("width", int64_t{dc5 ? 4 : 8});
  backbone.set("bottleneck", dc5);
  backbone.set("dilation", dc5);
  backbone.set("frozen_batch_norm", variant != "plain");
  backbone.set("frozen_stages", int64_t{variant == "two_stage" || dc5 ? 2 : 0});
  Args& t = model.section("transformer");
  for (auto [key, value] : std::map<std::string, int64_t>{{"hidden_dim", 32},
                                                          {"heads", 4},
                                                          {"encoder_layers", 2},
                                                          {"decoder_layers", 2},
                                                          {"ffn_dim", 64},
                                                          {"queries", 12},
                                                          {"encoder_points", 2},
                                                          {"decoder_points", 2}})
    t.set(key, value);
  t.set("dropout", 0.0);
  t.set("levels", int64_t{dc5 ? 1 : refines ? 4 : 3});
  model.section("deformable_detr").set("box_refine", refines);
  model.section("deformable_detr").set("two_stage", variant == "two_stage");
  auto detector = test::build_detector(model, kClasses);
  SafetensorsReader weights(kModelFolder + variant + ".weights.safetensors");
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

struct ModelBatch {
  DetectorInput input;
  std::vector<Target> targets;
};

ModelBatch read_model_batch(const SafetensorsReader& file, const std::string& images_prefix,
                            const std::string& target_prefix) {
  ModelBatch batch;
  Tensor images = file.read(images_prefix + "images");
  auto mask = file.read(images_prefix + "mask").to(DType::kI64).to_vector<int64_t>();
  int64_t N = images.dim(0), H = images.dim(1), W = images.dim(2);
  batch.input.images = Var(images);
  for (int64_t n = 0; n < N; ++n) {
    int64_t h = 0, w = 0;
    while (h < H && !mask[static_cast<size_t>((n * H + h) * W)]) ++h;
    while (w < W && !mask[static_cast<size_t>(n * H * W + w)]) ++w;
    batch.input.sizes.push_back({h, w});
    Target target;
    target.image_id = n;
    target.height = h;
    target.width = w;
    test::set_objects(target, file.read(target_prefix + std::to_string(n) + ".labels").to_vector<int64_t>(),
                      file.read(target_prefix + std::to_string(n) + ".boxes").to_vector<float>());
    batch.targets.push_back(std::move(target));
  }
  return batch;
}

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, EqualsPyTorch) {
  auto model = make_model(GetParam());
  SafetensorsReader golden(kModelFolder + GetParam() + ".golden.safetensors");
  ModelBatch batch = read_model_batch(golden, "input.", "target.");
  SetOutput output = set_output(*model->forward(batch.input));

  Tensor logits = golden.read("output.logits"), boxes = golden.read("output.boxes");
  ASSERT_EQ(static_cast<int64_t>(output.layers.size()), logits.dim(0));
  for (int64_t l = 0; l < logits.dim(0); ++l) {
    expect_near_golden(output.layers[static_cast<size_t>(l)].logits.value(), logits.select(0, l), "logits");
    expect_near_golden(output.layers[static_cast<size_t>(l)].boxes.value(), boxes.select(0, l), "boxes");
  }
  if (golden.find("output.enc_logits")) {
    expect_near_golden(output.encoder.logits.value(), golden.read("output.enc_logits"), "proposal logits");
    expect_near_golden(output.encoder.boxes.value(), golden.read("output.enc_boxes"), "proposal boxes");
  }

  DetectionLoss result = model->loss(output, batch.targets);
  double total = golden.read("loss.total").item();
  EXPECT_NEAR(result.total.value().item(), total, 1e-4 * total);

  backward(result.total);
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
  for (const NamedTensor& n : model->named_tensors())
    if (n.is_buffer && golden.find("after." + n.name))
      expect_near_golden(n.var.value(), golden.read("after." + n.name), "statistics " + n.name);
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenModel, testing::Values("plain", "refine", "two_stage", "dc5"),
                         [](const auto& variant) { return variant.param; });

TEST(GoldenTraining, FirstFiftyLossesEqualPyTorch) {
  auto model = make_model("plain");
  SafetensorsReader golden(kModelFolder + "plain.training.safetensors");
  std::vector<ModelBatch> batches;
  for (int b = 0; b < 4; ++b) {
    std::string prefix = "batch" + std::to_string(b) + ".";
    batches.push_back(read_model_batch(golden, prefix, prefix));
  }
  auto losses = golden.read("losses").to_vector<double>(),
       norms = golden.read("grad_norms").to_vector<double>();
  config::Optimizer options;
  options.set_learning_rate(2e-4);
  options.set_weight_decay(1e-4);
  options.set_clip_norm(0.1);
  Optimizer optimizer(model->parameters(), options);
  for (size_t step = 0; step < losses.size(); ++step) {
    const ModelBatch& batch = batches[step % batches.size()];
    DetectionLoss result = model->loss(*model->forward(batch.input), batch.targets);
    double loss = result.total.value().item();
    EXPECT_NEAR(loss, losses[step], 1e-3 * losses[step]) << "step " << step;
    backward(result.total);
    EXPECT_NEAR(*optimizer.step(1.0).data<double>(), norms[step], 1e-2 * norms[step]) << "step " << step;
    optimizer.zero_grad();
  }
}

}  // namespace
}  // namespace saccade
