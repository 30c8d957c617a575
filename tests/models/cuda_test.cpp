// Tests whole models on the GPU, or on the emulated one of an emulated build: a forward and backward pass of
// a tiny model of each kind, in training mode, against the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "core/runtime/gpu.h"
#include "core/runtime/recording.h"
#include "core/tensor/device.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"

namespace saccade {
namespace {

using Ints = std::vector<int64_t>;

// Results on the CPU, by name.
using Results = std::vector<std::pair<std::string, Tensor>>;

Tensor random(const Shape& shape, Rng& rng, double size) {
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(size * rng.normal());
  return t;
}

// Adds noise, so that heads and offsets that start at zero take part, too.
void initialize(Module& model) {
  model.initialize(3);
  Rng rng(5);
  NoGrad no_grad;
  for (const NamedTensor& t : model.parameters()) {
    Tensor value = t.var.value();
    value.copy_from(add(Var(value), Var(random(value.shape(), rng, 0.05))).value());
  }
  model.set_training(true);
}

// Returns the outputs, and the parameters' gradients of a random projection of the outputs.
Results backward_of(const Module& model, const std::vector<std::pair<std::string, Var>>& outputs) {
  Results results;
  Rng rng(7);
  Var loss;
  for (const auto& [name, output] : outputs) {
    results.emplace_back(name, output.value().to(Device::kCpu));
    Var part = sum(mul(output, Var(random(output.shape(), rng, 1).to(output.device()))));
    loss = loss.defined() ? add(loss, part) : part;
  }
  backward(loss);
  for (NamedTensor& t : model.parameters()) {
    if (t.var.grad().defined()) results.emplace_back("gradient of " + t.name, t.var.grad().to(Device::kCpu));
    t.var.clear_grad();
  }
  return results;
}

// Dropout and drop path draw the same numbers on both devices.
template <class Run>
Results run_on(Device device, Module& model, const Run& run) {
  ExecutionScope scope;
  execution().rng_key = 13;
  execution().rng_calls = 0;
  model.to(device);
  return run(device);
}

float largest_of(const Tensor& t) {
  float largest = 0;
  for (float x : t.to_vector<float>()) largest = std::max(largest, std::abs(x));
  return largest;
}

// Both devices compute in f32 and add up in their own order. The error grows with the depth, some fifty ops
// there and back; the second term is for gradients that cancel to zero, such as those of the keys' biases.
template <class Run>
void expect_cuda_agrees(Module& model, const Run& run) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  Results want = run_on(Device::kCpu, model, run), got = run_on(Device::kCuda, model, run);
  ASSERT_EQ(want.size(), got.size());
  float largest = 0;
  for (const auto& [name, tensor] : want) largest = std::max(largest, largest_of(tensor));
  double worst = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    EXPECT_EQ(want[k].first, got[k].first);
    ASSERT_EQ(want[k].second.shape(), got[k].second.shape()) << want[k].first;
    auto a = want[k].second.to_vector<float>(), b = got[k].second.to_vector<float>();
    double allowed = 1e-4 * largest_of(want[k].second) + 1e-6 * largest, error = 0;
    for (size_t i = 0; i < a.size(); ++i)
      error = std::max(error, std::isfinite(b[i]) ? std::abs(static_cast<double>(a[i]) - b[i]) : INFINITY);
    EXPECT_LE(error, allowed) << want[k].first;
    worst = std::max(worst, error / allowed);
  }
  fmt::print("{} results, the worst at {:.2f} of the tolerance\n", want.size(), worst);
}

// In evaluation a recording of forward(images) gives the bits of a call, also for images that come later.
template <class Forward>
void expect_recording_agrees(Module& model, const Tensor& images, const Forward& forward) {
  if (!cuda_problem().empty()) return;
  const NoGrad no_grad;
  model.set_training(false);
  model.to(Device::kCuda);
  Tensor place = images.to(Device::kCuda);
  for (int call = 0; call < 2; ++call) forward(place);
  std::vector<Var> recorded;
  auto work = record_work(Device::kCuda, [&] { recorded = forward(place); });
  ASSERT_TRUE(work);
  for (float factor : {1.0f, -0.5f}) {
    Tensor next = images.clone();
    for (int64_t i = 0; i < next.numel(); ++i) next.data<float>()[i] *= factor;
    place.copy_from(next.to(Device::kCuda));
    const std::vector<Var> want = forward(place);
    const CudaStatistics before = cuda_statistics();
    work->start();
    EXPECT_EQ(cuda_statistics().launches - before.launches, 1);
    ASSERT_EQ(recorded.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(recorded[i].value().to(Device::kCpu).to_vector<float>(),
                want[i].value().to(Device::kCpu).to_vector<float>())
          << "output " << i << " of images times " << factor;
  }
}

void expect_detector_agrees(const Args& args, int64_t height, int64_t width) {
  auto model = test::build_detector(args, 4);
  initialize(*model);
  Rng rng(11);
  Tensor images = random({2, height, width, 3}, rng, 1);
  // The second image is padded on the right and below.
  std::vector<ImageSize> sizes{{height, width}, {height / 2, width - 20}};
  images.slice(0, 1, 2).slice(1, height / 2, height).fill(0);
  images.slice(0, 1, 2).slice(2, width - 20, width).fill(0);
  std::vector<Target> targets(2);  // for the denoising queries, where the model has them
  targets[1].image_id = 3;
  test::set_objects(targets[1], {1, 2}, {0.5f, 0.4f, 0.2f, 0.3f, 0.3f, 0.6f, 0.3f, 0.1f});
  expect_cuda_agrees(*model, [&](Device device) {
    SetOutput output =
        set_output(*model->forward({.images = Var(images.to(device)), .sizes = sizes, .targets = &targets}));
    std::vector<std::pair<std::string, Var>> outputs;
    if (output.encoder.logits.defined())
      outputs = {{"proposals' logits", output.encoder.logits}, {"proposals", output.encoder.boxes}};
    for (const auto* layers : {&output.layers, &output.denoising.layers}) {
      for (const LayerPrediction& layer : *layers) {
        outputs.emplace_back("logits", layer.logits);
        outputs.emplace_back("boxes", layer.boxes);
      }
    }
    return backward_of(*model, outputs);
  });
  expect_recording_agrees(*model, images, [&](const Tensor& x) {
    const LayerPrediction last =
        set_output(*model->forward({.images = Var(x), .sizes = sizes})).layers.back();
    return std::vector{last.logits, last.boxes};
  });
}

void expect_classifier_agrees(const Args& args, const Shape& images_shape) {
  auto model = build_as<Classifier>(args, 5);
  initialize(*model);
  Rng rng(11);
  Tensor images = random(images_shape, rng, 1);
  expect_cuda_agrees(*model, [&](Device device) {
    return backward_of(*model, {{"logits", model->forward(Var(images.to(device)))}});
  });
  expect_recording_agrees(*model, images,
                          [&](const Tensor& x) { return std::vector{model->forward(Var(x))}; });
}

Args detector(const char* type) {
  Args model = test::schema_args(type);
  Args& backbone = model.section("backbone");
  backbone.set("blocks", Ints{1, 1, 1, 1});
  backbone.set("width", int64_t{8});
  backbone.set("frozen_batch_norm", false);
  Args& t = model.section("transformer");
  for (auto [key, value] : {std::pair{"hidden_dim", 32},
                            {"heads", 4},
                            {"encoder_layers", 1},
                            {"decoder_layers", 2},
                            {"ffn_dim", 32},
                            {"queries", 6}})
    t.set(key, int64_t{value});
  t.set("dropout", 0.1);
  return model;
}

Args classifier(const char* type) {
  Args model("model");
  model.set("type", std::string("classifier"));
  model.section("backbone").set("type", std::string(type));
  return model;
}

TEST(CudaModels, Detr) {
  Args model = detector("detr");
  model.section("transformer").section("denoising").set("queries", int64_t{4});
  expect_detector_agrees(model, 64, 96);
}

TEST(CudaModels, TwoStageDeformableDetr) {
  Args model = detector("deformable_detr");
  model.section("transformer").set("levels", int64_t{3});
  model.section("backbone").set("outputs", Ints{3, 4});
  model.section("deformable_detr").set("box_refine", true);
  model.section("deformable_detr").set("two_stage", true);
  // The smallest map has 2 x 3 cells: a norm over fewer would cancel most digits.
  expect_detector_agrees(model, 128, 160);
}

Args rt_detr() {
  Args model = detector("rt_detr");
  model.section("backbone").set("variant", std::string("d"));
  model.section("transformer").set("hidden_dim", int64_t{16});
  Args& encoder = model.section("rt_detr").section("hybrid_encoder");
  encoder.set("dim", int64_t{16});
  encoder.set("ffn_dim", int64_t{16});
  return model;
}

TEST(CudaModels, RtDetr) { expect_detector_agrees(rt_detr(), 128, 160); }

// Evaluation folds the norms into the convolutions.
TEST(CudaModels, RtDetrInEvaluation) {
  auto model = test::build_detector(rt_detr(), 4);
  initialize(*model);
  model->set_training(false);
  Rng rng(11);
  Tensor images = random({1, 64, 96, 3}, rng, 1);
  expect_cuda_agrees(*model, [&](Device device) {
    NoGrad no_grad;
    SetOutput output = set_output(*model->forward({.images = Var(images.to(device))}));
    return Results{{"logits", output.layers.back().logits.value().to(Device::kCpu)},
                   {"boxes", output.layers.back().boxes.value().to(Device::kCpu)}};
  });
}

TEST(CudaModels, RfDetr) {
  Args model = test::schema_args("rf_detr");
  Args& backbone = model.section("backbone");
  for (auto [key, value] :
       {std::pair{"image_size", 64}, {"patch", 16}, {"dim", 16}, {"depth", 2}, {"heads", 2}, {"windows", 2}})
    backbone.set(key, int64_t{value});
  backbone.set("windowed_blocks", Ints{0});
  backbone.set("positions", std::string("smooth"));
  Args& t = model.section("transformer");
  for (auto [key, value] : {std::pair{"hidden_dim", 16},
                            {"heads", 2},
                            {"decoder_layers", 2},
                            {"ffn_dim", 16},
                            {"queries", 6},
                            {"extra_query_groups", 2}})
    t.set(key, int64_t{value});
  model.section("lw_detr").set("cross_heads", int64_t{4});
  model.section("lw_detr").set("projector_blocks", int64_t{1});
  expect_detector_agrees(model, 64, 96);
}

TEST(CudaModels, Dino) {
  Args model = detector("dino");
  model.section("transformer").set("levels", int64_t{3});
  model.section("backbone").set("outputs", Ints{3, 4});
  expect_detector_agrees(model, 128, 160);
}

// The windows do not divide the map, and some are shifted.
TEST(CudaModels, Swin) {
  Args model = classifier("swin");
  Args& b = model.section("backbone");
  b.set("embed_dim", int64_t{16});
  b.set("depths", Ints{2, 2});
  b.set("heads", Ints{1, 2});
  b.set("window", int64_t{4});
  expect_classifier_agrees(model, {2, 40, 52, 3});
}

TEST(CudaModels, Vit) {
  Args model = classifier("vit");
  Args& b = model.section("backbone");
  b.set("dim", int64_t{16});
  b.set("depth", int64_t{2});
  b.set("heads", int64_t{2});
  b.set("image_size", int64_t{32});
  b.set("patch", int64_t{8});
  expect_classifier_agrees(model, {2, 32, 32, 3});
  expect_classifier_agrees(model, {2, 40, 32, 3});  // positions of another grid
}

// The reductions do not divide the map, and the positions are those of another grid.
TEST(CudaModels, Pvt) {
  Args model = classifier("pvt");
  Args& b = model.section("backbone");
  b.set("dims", Ints{8, 16});
  b.set("depths", Ints{2, 1});
  b.set("heads", Ints{1, 2});
  b.set("reductions", Ints{4, 1});
  b.set("image_size", int64_t{32});
  expect_classifier_agrees(model, {2, 40, 52, 3});
}

// The stages have windows, shifted ones and deformed attention.
TEST(CudaModels, Dat) {
  Args model = classifier("dat");
  Args& b = model.section("backbone");
  b.set("dims", Ints{12, 24});
  b.set("heads", Ints{3, 6});
  b.set("groups", Ints{1, 3});
  b.set("blocks", std::string("LSD LDS"));
  b.set("kernels", Ints{5, 3});
  b.set("window", int64_t{3});
  b.set("image_size", int64_t{24});
  expect_classifier_agrees(model, {2, 24, 32, 3});
}

// The neighbourhoods are in maps that are larger and smaller than the window; deformed attention uses DAT++'s
// coordinates.
TEST(CudaModels, DatPp) {
  Args model = classifier("dat_pp");
  Args& b = model.section("backbone");
  b.set("dims", Ints{8, 16});
  b.set("heads", Ints{2, 4});
  b.set("groups", Ints{1, 2});
  b.set("blocks", std::string("ND ND"));
  b.set("kernels", Ints{5, 3});
  b.set("strides", Ints{2, 1});
  b.set("window", int64_t{5});
  b.set("image_size", int64_t{24});
  expect_classifier_agrees(model, {2, 24, 32, 3});
}

}  // namespace
}  // namespace saccade
