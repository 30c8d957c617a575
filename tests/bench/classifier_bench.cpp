// Training steps of a classifier on random images: forward, cross entropy with label smoothing, backward,
// AdamW with clipping. `classifier_bench [--type dat|swin] [--bf16] [--steps N] [--batch B] [--size S]`
// prints {"step_ms": [...], ...}; the defaults are DAT-T or Swin-T, batch 8 at 224 pixels.
// scripts/bench/cpu.sh runs it against PyTorch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "autograd/engine.h"
#include "core/tensor/philox.h"
#include "models/build.h"
#include "train/config/config.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

struct Options {
  std::string type = "dat";
  bool bf16 = false;
  int64_t steps = 10, batch = 8, size = 224;
};

void bench(const Options& o) {
  Config config;
  config.mutable_model()->set_type("classifier");
  config.mutable_model()->mutable_backbone()->set_type(o.type);
  Args args = model_args(config);
  args.section("backbone").set("drop_path", 0.2);
  auto model = build_as<Classifier>(args, 1000);
  model->initialize(1);
  model->set_training(true);
  config::Optimizer settings;
  settings.set_learning_rate(1e-4);
  settings.set_weight_decay(0.05);
  settings.set_clip_norm(5);
  Optimizer optimizer(model->parameters(), settings);

  Rng rng(2);
  Tensor images = Tensor::empty({o.batch, o.size, o.size, 3});
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  Tensor labels = Tensor::empty({o.batch}, DType::kI64);
  for (int64_t i = 0; i < o.batch; ++i) labels.data<int64_t>()[i] = 37 * i;

  ExecutionScope scope;
  if (o.bf16) execution().compute = DType::kBF16;
  std::vector<double> times, losses;
  for (int64_t step = 0; step < o.steps; ++step) {
    auto start = std::chrono::steady_clock::now();
    Var loss = mul_scalar(cross_entropy(model->forward(Var(images)), labels, {}, 0.1),
                          1.0 / static_cast<double>(o.batch));
    optimizer.zero_grad();
    backward(loss);
    optimizer.step(1);
    losses.push_back(loss.value().item());
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  fmt::print("{{\"step_ms\": [{:.2f}], \"losses\": [{:.5f}], \"parameters\": {}}}\n", fmt::join(times, ", "),
             fmt::join(losses, ", "), model->parameter_count());
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Options options;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--bf16") {
      options.bf16 = true;
      continue;
    }
    if (i + 1 == argc) {
      fmt::print(stderr, "{} needs a value\n", flag);
      return 2;
    }
    std::string value = argv[++i];
    if (flag == "--type") {
      options.type = value;
    } else if (flag == "--steps") {
      options.steps = std::atoll(value.c_str());
    } else if (flag == "--batch") {
      options.batch = std::atoll(value.c_str());
    } else if (flag == "--size") {
      options.size = std::atoll(value.c_str());
    } else {
      fmt::print(stderr, "{} is not a flag\n", flag);
      return 2;
    }
  }
  saccade::bench(options);
}
