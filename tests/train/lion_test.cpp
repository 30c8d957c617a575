// Tests the optimizer of docs/extending.md, built from its text (see CMakeLists.txt): its arithmetic against
// an independent one in f64, and a run that is killed and resumed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>

#include "core/tensor/philox.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/config/config.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

struct ParameterModule : Module {
  Var a = param("a", {7, 11}, {}), b = param("b", {200}, {});
  std::string type_name() const override { return "Tensors"; }
};

// Algorithm 2 of Chen et al. 2023, with decoupled decay, the clipping of clip_grad_norm_ and the moving
// average of ema.h.
struct Reference {
  std::vector<double> p, m, average;

  void step(const std::vector<double>& g, double rate, double decay, double beta1, double beta2,
            double weight) {
    for (size_t i = 0; i < p.size(); ++i) {
      const double update = (1 - beta1) * g[i] + beta1 * m[i];
      const double sign = update == 0 ? 0 : std::copysign(1.0, update);
      p[i] -= rate * (sign + decay * p[i]);
      m[i] = (1 - beta2) * g[i] + beta2 * m[i];
      average[i] = (1 - weight) * average[i] + weight * p[i];
    }
  }
};

TEST(Lion, EqualsAnIndependentImplementation) {
  constexpr double kRate = 1e-2, kDecay = 0.1, kClip = 5, kEmaDecay = 0.9;
  Rng rng(3);
  ParameterModule model;
  config::Optimizer options =
      parse_config(
          "optimizer { type: \"lion\" beta1: 0.9 beta2: 0.99 group { regex: \"b\" lr_mult: 0.5 weight_decay: 0.2 } }",
          "F")
          .optimizer();
  options.set_learning_rate(kRate);
  options.set_weight_decay(kDecay);
  options.set_clip_norm(kClip);
  auto random = [&](const Shape& shape) {
    Tensor t = Tensor::empty(shape, DType::kF32);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
    return t;
  };
  std::vector<Var> vars{model.a, model.b};
  std::vector<Reference> wanted;
  for (Var& v : vars) {
    v.value().copy_from(random(v.shape()));
    std::vector<double> p = v.value().to_vector<double>();
    wanted.push_back({p, std::vector<double>(p.size()), p});
  }
  Optimizer optimizer(model.parameters(), options);
  Ema ema(model, kEmaDecay);
  for (int t = 0; t < 20; ++t) {
    std::vector<std::vector<double>> grads;
    double squares = 0;
    for (Var& v : vars) {
      v.set_grad(random(v.shape()));
      grads.push_back(v.grad().to_vector<double>());
      for (double g : grads.back()) squares += g * g;
    }
    const double norm = std::sqrt(squares), factor = t < 10 ? 1 : 0.1;
    for (auto& list : grads)
      for (double& g : list) g *= std::min(1.0, kClip / (norm + 1e-6));
    const double weight = 1 - std::min(kEmaDecay, (1.0 + t) / (10.0 + t));
    wanted[0].step(grads[0], kRate * factor, kDecay, 0.9, 0.99, weight);
    wanted[1].step(grads[1], kRate * factor * 0.5, 0.2, 0.9, 0.99, weight);
    EXPECT_NEAR(*optimizer.step(factor, {}, &ema).data<double>(), norm, 1e-6 * norm);
  }
  NamedValues state = optimizer.state();
  ASSERT_EQ(state.size(), 4U);
  EXPECT_EQ(state[0].first, "exp_avg.a");
  EXPECT_EQ(state[1].first, "step.a");
  // Twenty updates of values up to 4 (whose f32 spacing is 2.4e-7), each rounded once or twice.
  auto expect_near = [](const Tensor& got, const std::vector<double>& want) {
    std::vector<double> x = got.to_vector<double>();
    ASSERT_EQ(x.size(), want.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], want[i], 4e-6) << "element " << i;
  };
  for (size_t k = 0; k < 2; ++k) {
    expect_near(vars[k].value(), wanted[k].p);
    expect_near(state[2 * k].second, wanted[k].m);
    expect_near(ema.state()[k].second, wanted[k].average);
  }
}

constexpr const char* kConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 32 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 32 queries: 10 levels: 1 }
}
data {
  train { annotations: "DIR/shapes/annotations.json" images: "DIR/shapes/images" }
  batch_size: 4
  augment { height: 64 width: 64 }
}
optimizer { type: "lion" learning_rate: 1e-3 beta2: 0.99 clip_norm: 1 }
schedule { type: "inverse_sqrt" warmup_steps: 10 }
train { epochs: 0 max_steps: 80 log_every: 1 checkpoint_every_steps: 2 ema_decay: 0.9 }
)";

// The killed run is this test, started once more by the death test, which leaves the folder in the
// environment.
TEST(Lion, KilledRunResumesToTheSameBits) {
  constexpr const char* kFolder = "SACCADE_LION_TEST";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::optional<TestFolder> own;
  if (!std::getenv(kFolder)) {
    own.emplace();
    ::setenv(kFolder, own->path().c_str(), 1);
    ASSERT_EQ(run_command({"data", "shapes", "--output", *own / "shapes", "--images", "16", "--seed", "1"}),
              0);
    std::string config = kConfig;
    for (size_t at; (at = config.find("DIR")) != std::string::npos;) config.replace(at, 3, own->path());
    write_bytes(*own / "config.textproto", config);
  }
  const std::string folder = std::getenv(kFolder);
  auto train = [&](const std::string& run, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"train", "--config", folder + "/config.textproto", "--output",
                                   folder + "/" + run};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  };
  auto kill_after_lines = [&](size_t lines) {
    while (!std::filesystem::exists(folder + "/killed/metrics.jsonl") ||
           losses_of(folder + "/killed").size() < lines)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::kill(::getpid(), SIGKILL);
  };
  EXPECT_EXIT(
      {
        std::thread(kill_after_lines, 5).detach();
        train("killed");
      },
      testing::KilledBySignal(SIGKILL), "");
  ::unsetenv(kFolder);
  ASSERT_EQ(train("killed", {"--resume"}), 0);
  ASSERT_EQ(train("whole"), 0);
  auto bytes = [&](const std::string& run) {
    return read_bytes(folder + "/" + run + "/checkpoints/last.safetensors");
  };
  EXPECT_FALSE(bytes("whole").empty());
  EXPECT_TRUE(bytes("whole") == bytes("killed"));
  std::vector<double> losses = losses_of(folder + "/whole"),
                      rates = logged_numbers(folder + "/whole", "learning_rate");
  ASSERT_EQ(losses.size(), 80U);
  auto mean = [&](int from) { return std::accumulate(&losses[from], &losses[from] + 10, 0.0) / 10; };
  EXPECT_LT(mean(70), 0.8 * mean(0));
  EXPECT_NEAR(rates[79], 1e-3 * std::sqrt(10.0 / 79), 1e-9);  // the schedule of the page
}

}  // namespace
}  // namespace saccade
