// Times a segmentation model's training step or inference on random images and label maps of one size:
//   segmenter_bench --config configs/upernet_swin_t.textproto [--device cpu|cuda] [--precision f32|tf32|bf16]
//                   [--infer] [--batch 2] [--size 512] [--steps 6]
// prints {"step_ms": [of each step but the first], "peak_bytes": ..., "parameters": ...}.
// scripts/bench/segmenter.sh runs it against transformers.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>

#include "autograd/engine.h"
#include "core/tensor/allocator.h"
#include "core/tensor/philox.h"
#include "models/build.h"
#include "models/segmenter.h"
#include "train/config/options.h"
#include "train/inference/device_choice.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

struct Options {
  std::string config, device = "cpu", precision = "f32";
  bool infer = false;
  int64_t batch = 2, size = 512, steps = 6;
};

int bench(const Options& o) {
  Config config = load_config(o.config);
  apply_set(config, "precision=" + o.precision);
  config = resolve_config(config);
  const Device device = choose_device(o.device).device;
  const int64_t classes = std::max<int64_t>(config.model().num_classes(), 2);  // 0: those of the data
  auto model = build_as<Segmenter>(model_args(config), classes, criterion_args(config));
  model->initialize(1);
  model->to(device);
  model->set_training(!o.infer);
  Optimizer optimizer(model->parameters(), config.optimizer());
  Rng rng(2);
  Tensor images = Tensor::empty({o.batch, o.size, o.size, 3});
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  Tensor labels = Tensor::empty({o.batch, o.size, o.size}, DType::kI64);
  for (int64_t i = 0; i < labels.numel(); ++i)
    labels.data<int64_t>()[i] = rng.below(model->num_classes() + 1) - 1;
  images = images.to(device);
  labels = labels.to(device);

  ExecutionScope scope;
  set_precision(precision_of(config));
  execution().grad_enabled = !o.infer;
  auto step = [&] {
    const SegmenterOutput output = model->forward(Var(images));
    if (o.infer) {  // the logits of all pixels must have arrived
      logits_at(output.logits, o.size, o.size).value().slice(0, 0, 1).to(Device::kCpu);
      return;
    }
    const Var loss = model->loss(output, labels, static_cast<double>(labels.numel())).total;
    optimizer.zero_grad();
    backward(loss);
    optimizer.step(1);
    loss.value().item();
  };
  std::vector<double> times;
  for (int64_t i = 0; i < o.steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  times.erase(times.begin());
  fmt::print("{{\"step_ms\": [{:.1f}], \"peak_bytes\": {}, \"parameters\": {}}}\n", fmt::join(times, ", "),
             allocator(device).stats().peak_bytes, model->parameter_count());
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Options o;
  CLI::App app("times a segmentation model");
  app.add_option("--config", o.config)->required();
  app.add_option("--device", o.device);
  app.add_option("--precision", o.precision);
  app.add_flag("--infer", o.infer);
  app.add_option("--batch", o.batch);
  app.add_option("--size", o.size);
  app.add_option("--steps", o.steps)->check(CLI::Range(2, 10000));
  CLI11_PARSE(app, argc, argv);
  try {
    return saccade::bench(o);
  } catch (const saccade::Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
