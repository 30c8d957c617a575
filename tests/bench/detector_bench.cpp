// A detector's training step, or its inference, on random images without padding, ten boxes each:
//   detector_bench --config configs/deformable_detr_r50.textproto [--device cpu|cuda] [--precision
//   f32|tf32|bf16]
//                  [--infer] [--batch 4] [--height 800] [--width 1066] [--steps 20] [--set path=value]...
// prints {"ms": mean of the steps after the first fifth, "images_per_second": ..., "peak_bytes": ...}. The
// clock stops after the GPU has finished the last step. scripts/bench/gpu.sh runs it beside PyTorch.
#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "core/tensor/allocator.h"
#include "core/tensor/philox.h"
#include "models/build.h"
#include "train/commands/device_choice.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"

namespace saccade {
namespace {

constexpr int64_t kClasses = 91;

struct Options {
  std::string config, device = "cpu", precision = "f32";
  std::vector<std::string> sets;
  bool infer = false;
  int64_t batch = 4, height = 800, width = 1066, steps = 20;
};

Batch random_batch(const Options& o) {
  Rng rng(2);
  Batch batch;
  batch.images = Tensor::empty({o.batch, o.height, o.width, 3}, DType::kU8);
  batch.padding_mask = Tensor::zeros({o.batch, o.height, o.width}, DType::kBool);
  for (int64_t i = 0; i < batch.images.numel(); ++i)
    batch.images.data<uint8_t>()[i] = static_cast<uint8_t>(rng.next());
  for (int64_t n = 0; n < o.batch; ++n) {
    Target target;
    target.image_id = n;
    target.height = target.original_height = o.height;
    target.width = target.original_width = o.width;
    for (int i = 0; i < 10; ++i) {
      target.labels.push_back(rng.below(kClasses));
      for (double x :
           {rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7), rng.uniform(0.05, 0.5), rng.uniform(0.05, 0.5)})
        target.boxes.push_back(static_cast<float>(x));
      target.areas.push_back(1000);
    }
    batch.targets.push_back(target);
  }
  return batch;
}

int bench(const Options& o) {
  Config config = load_config(o.config);
  apply_set(config, "precision=" + o.precision);
  for (const std::string& set : o.sets) apply_set(config, set);
  config = resolve_config(config);
  Device device = choose_device(o.device).device;
  auto model = build_as<Detector>(model_args(config), kClasses, criterion_args(config));
  model->initialize(1);
  model->to(device);
  model->set_training(!o.infer);
  Optimizer optimizer(model->parameters(), optimizer_options(config.optimizer()));
  kernels::ImageNormalization norm = image_normalization(config);
  Batch batch = random_batch(o);

  ExecutionScope scope;
  set_precision(precision_of(config));
  execution().grad_enabled = !o.infer;
  auto finish = [&] { return model->parameters().front().var.value().reshape({-1}).slice(0, 0, 1).item(); };
  auto step = [&] {
    DetectorOutput output = model->forward(detector_input(batch, norm, device));
    if (o.infer) {  // the predictions must arrive
      output.layers.back().logits.value().to(Device::kCpu);
      output.layers.back().boxes.value().to(Device::kCpu);
      return;
    }
    optimizer.zero_grad();
    backward(model->loss(output, batch.targets).total);
    optimizer.step(1);
  };
  int64_t warm = std::max<int64_t>(1, o.steps / 5), timed = std::max<int64_t>(1, o.steps - warm);
  for (int64_t i = 0; i < warm; ++i) step();
  finish();
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < timed; ++i) step();
  finish();
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() /
              static_cast<double>(timed);
  fmt::print("{{\"ms\": {:.3f}, \"images_per_second\": {:.2f}, \"peak_bytes\": {}, \"parameters\": {}}}\n",
             ms, static_cast<double>(o.batch) * 1e3 / ms, allocator(device).stats().peak_bytes,
             model->parameter_count());
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Options o;
  CLI::App app("times a detector");
  app.add_option("--config", o.config)->required();
  app.add_option("--device", o.device);
  app.add_option("--precision", o.precision);
  app.add_option("--set", o.sets);
  app.add_flag("--infer", o.infer);
  app.add_option("--batch", o.batch);
  app.add_option("--height", o.height);
  app.add_option("--width", o.width);
  app.add_option("--steps", o.steps);
  CLI11_PARSE(app, argc, argv);
  try {
    return saccade::bench(o);
  } catch (const saccade::Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
