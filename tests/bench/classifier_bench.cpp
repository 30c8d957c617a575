// Times a classifier's training step (cross entropy with label smoothing, backward, AdamW with clipping) or
// inference on random images:
//   classifier_bench [--type dat|swin | --config configs/vit_s.textproto] [--device cpu|cuda]
//                    [--precision f32|tf32|bf16] [--infer] [--batch 8] [--size 224] [--steps 10]
// prints {"step_ms": [...], "losses": [...], "parameters": ...}. Without --config it is DAT-T or Swin-T with
// a drop path of 0.2, which scripts/bench/cpu.sh runs against PyTorch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "autograd/engine.h"
#include "core/tensor/philox.h"
#include "models/build.h"
#include "train/config/options.h"
#include "train/inference/device_choice.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

struct Options {
  std::string type = "dat", config, device = "cpu", precision = "f32";
  bool infer = false;
  int64_t steps = 10, batch = 8, size = 224;
};

Config config_of(const Options& o) {
  if (!o.config.empty()) {
    Config config = load_config(o.config);
    apply_set(config, "precision=" + o.precision);
    return resolve_config(config);
  }
  Config config;
  apply_set(config, "precision=" + o.precision);
  config.mutable_model()->set_type("classifier");
  config.mutable_model()->mutable_backbone()->set_type(o.type);
  config.mutable_optimizer()->set_learning_rate(1e-4);
  config.mutable_optimizer()->set_weight_decay(0.05);
  config.mutable_optimizer()->set_clip_norm(5);
  return config;
}

int bench(const Options& o) {
  const Config config = config_of(o);
  const Device device = choose_device(o.device).device;
  Args args = model_args(config);
  if (o.config.empty()) args.section("backbone").set("drop_path", 0.2);
  auto model = build_as<Classifier>(args, 1000);
  model->initialize(1);
  model->to(device);
  model->set_training(!o.infer);
  Optimizer optimizer(model->parameters(), config.optimizer());

  Rng rng(2);
  Tensor images = Tensor::empty({o.batch, o.size, o.size, 3});
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  Tensor labels = Tensor::empty({o.batch}, DType::kI64);
  for (int64_t i = 0; i < o.batch; ++i) labels.data<int64_t>()[i] = 37 * i;
  images = images.to(device);
  labels = labels.to(device);

  ExecutionScope scope;
  set_precision(precision_of(config));
  execution().grad_enabled = !o.infer;
  std::vector<double> times, losses;
  for (int64_t step = 0; step < o.steps; ++step) {
    auto start = std::chrono::steady_clock::now();
    Var loss = mul_scalar(cross_entropy(model->forward(Var(images)), labels, {}, 0.1),
                          1.0 / static_cast<double>(o.batch));
    if (!o.infer) {
      optimizer.zero_grad();
      backward(loss);
      optimizer.step(1);
    }
    losses.push_back(loss.value().item());
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  fmt::print("{{\"step_ms\": [{:.2f}], \"losses\": [{:.5f}], \"parameters\": {}}}\n", fmt::join(times, ", "),
             fmt::join(losses, ", "), model->parameter_count());
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Options o;
  CLI::App app("times a classifier");
  app.add_option("--type", o.type);
  app.add_option("--config", o.config);
  app.add_option("--device", o.device);
  app.add_option("--precision", o.precision);
  app.add_flag("--infer", o.infer);
  app.add_option("--steps", o.steps);
  app.add_option("--batch", o.batch);
  app.add_option("--size", o.size);
  CLI11_PARSE(app, argc, argv);
  try {
    return saccade::bench(o);
  } catch (const saccade::Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
